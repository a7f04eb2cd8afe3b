//! Batches of the output, from the bytes of decoded records. The layout is at the top of `records`.

use crate::failure::{Failure, Result};
use crate::lz4::Compressor;
use crate::records::{CRC_FROM, HEADER_BYTES, LENGTH_FROM, LZ4, Records, TRANSACTIONAL};

/// Producer and place in its sequence.
#[derive(Clone, Copy)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
}

/// A batch of the output that grows.
pub struct Growing {
    compressor: Option<Compressor>,
    limit: usize,
    body: Vec<u8>,
    packed: Vec<u8>,
    header: [u8; HEADER_BYTES],
    count: i32,
    base_ms: i64,
    max_ms: i64,
}

impl Growing {
    /// Batches of at most `limit` bytes before compression, unless a single record is larger.
    pub fn new(limit: usize, is_compressed: bool) -> Result<Self> {
        Ok(Self {
            compressor: if is_compressed { Some(Compressor::new()?) } else { None },
            limit,
            body: Vec::new(),
            packed: Vec::new(),
            header: [0; HEADER_BYTES],
            count: 0,
            base_ms: 0,
            max_ms: 0,
        })
    }

    pub fn count(&self) -> i32 {
        self.count
    }

    pub fn clear(&mut self) {
        self.body.clear();
        self.count = 0;
    }

    /// Append a record, or return false if the batch is full without it.
    #[inline]
    pub fn push(&mut self, records: &Records, row: usize) -> bool {
        // As today's path: librdkafka takes the timestamp 0 for "now".
        let ms = match records.time_ms(row) {
            0 => 1,
            ms => ms,
        };
        if self.count == 0 {
            (self.base_ms, self.max_ms) = (ms, ms);
        }
        let (body, delta_ms, delta) =
            (records.body(row), ms.wrapping_sub(self.base_ms), self.count);
        let length = 1 + varint_bytes(delta_ms) + varint_bytes(delta.into()) + body.len();
        if self.count > 0 && HEADER_BYTES + self.body.len() + length + 5 > self.limit {
            return false;
        }
        put_varint(&mut self.body, length as i64);
        self.body.push(0);
        put_varint(&mut self.body, delta_ms);
        put_varint(&mut self.body, delta.into());
        self.body.extend_from_slice(body);
        self.max_ms = self.max_ms.max(ms);
        self.count += 1;
        true
    }

    /// The batch as bytes of `producer`, in two parts; compressed, unless that makes it longer.
    pub fn finish(&mut self, producer: Producer) -> Result<[&[u8]; 2]> {
        self.packed.clear();
        if let Some(compressor) = &mut self.compressor {
            compressor.compress(&self.body, &mut self.packed)?;
        }
        let is_shorter = self.compressor.is_some() && self.packed.len() < self.body.len();
        let (codec, body) = if is_shorter { (LZ4, &self.packed) } else { (0, &self.body) };
        let length = i32::try_from(HEADER_BYTES - LENGTH_FROM + body.len())
            .map_err(|_| Failure::new(10, "a batch of more than 2 GiB"))?;
        let header = &mut self.header;
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &length.to_be_bytes());
        put(12, &(-1i32).to_be_bytes());
        put(16, &[2]);
        put(21, &(codec | TRANSACTIONAL).to_be_bytes());
        put(23, &(self.count - 1).to_be_bytes());
        put(27, &self.base_ms.to_be_bytes());
        put(35, &self.max_ms.to_be_bytes());
        put(43, &producer.id.to_be_bytes());
        put(51, &producer.epoch.to_be_bytes());
        put(53, &producer.sequence.to_be_bytes());
        put(57, &self.count.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.header[CRC_FROM..]), body);
        self.header[17..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        Ok([&self.header, body])
    }
}

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn varint_bytes(value: i64) -> usize {
    ((64 - (zigzag(value) | 1).leading_zeros()) as usize).div_ceil(7)
}

#[inline]
pub fn put_varint(to: &mut Vec<u8>, value: i64) {
    let mut left = zigzag(value);
    while left >= 0x80 {
        to.push(left as u8 | 0x80);
        left >>= 7;
    }
    to.push(left as u8);
}
