//! Record batches of version 2, the hot path: decoded to arrays, encoded from the bytes of decoded records.
//!
//! A batch; integers are big-endian:
//!
//! ```text
//!     0   base offset       i64    offset of the first record, before compaction
//!     8   length            i32    of what follows
//!     12  leader epoch      i32    the broker's
//!     16  magic             i8     2
//!     17  CRC-32C           u32    of all that follows
//!     21  attributes        i16    bits 0-2 codec (0 none, 3 lz4), 3 log append time, 4 transactional, 5 control
//!     23  last offset delta i32
//!     27  base timestamp    i64    Unix milliseconds
//!     35  max timestamp     i64    with log append time: that of every record
//!     43  producer id       i64
//!     51  producer epoch    i16
//!     53  base sequence     i32
//!     57  records           i32    their number
//!     61  the records, as a whole compressed by the codec
//! ```
//!
//! A record; its numbers are zigzag varints, as in Protocol Buffers:
//!
//! ```text
//!     length                       of what follows
//!     attributes        i8         unused, 0
//!     timestamp delta              from the base timestamp
//!     offset delta                 from the base offset
//!     key length, key              -1: null
//!     value length, value          -1: null
//!     headers                      their number; of each: length and name, length (-1: null) and value
//! ```
//!
//! From the key length on, a record is copied to the output as it is: key, value and headers stay the same bytes.
//!
//! The only record of a control batch ends a transaction: its key is version i16, type i16 (0 abort, 1 commit).

use crate::failure::{Failure, Result};
use crate::ids::pack_id;
use crate::lz4::Decompressor;

pub const HEADER_BYTES: usize = 61;
/// What comes before the bytes that the length counts.
pub const LENGTH_FROM: usize = 12;
pub const CRC_FROM: usize = 21;
const CODEC: i16 = 0b111;
pub const LZ4: i16 = 3;
pub const LOG_APPEND_TIME: i16 = 1 << 3;
pub const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(array(bytes, at))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array(bytes, at))
}

/// Bytes of a header, which is known to be whole.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

/// Reads one record after another.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn varint(&mut self) -> Result<i64> {
        let (mut zigzag, mut shift) = (0u64, 0);
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(cut_off)?;
            self.at += 1;
            zigzag |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
            }
            shift += 7;
            if shift > 63 {
                return Err(Failure::bad("a number of more than 64 bits"));
            }
        }
    }

    #[inline]
    fn take(&mut self, length: i64) -> Result<&'a [u8]> {
        let end = usize::try_from(length).ok().and_then(|each| self.at.checked_add(each));
        let found = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(cut_off)?;
        self.at += found.len();
        Ok(found)
    }

    /// Bytes behind their length; None for the length -1.
    #[inline]
    fn nullable(&mut self) -> Result<Option<&'a [u8]>> {
        match self.varint()? {
            -1 => Ok(None),
            length => self.take(length).map(Some),
        }
    }
}

pub fn cut_off() -> Failure {
    Failure::bad("a record is longer than its batch")
}

/// A whole batch in the bytes of a fetch.
#[derive(Clone, Copy)]
pub struct Header {
    pub base_offset: i64,
    pub bytes: usize,
    pub last_offset: i64,
    pub producer_id: i64,
    attributes: i16,
    base_ms: i64,
    max_ms: i64,
    count: i32,
}

impl Header {
    /// The header of the batch at the begin of `bytes`; None if they do not hold all of that.
    pub fn of_next(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.len() < LENGTH_FROM {
            return Ok(None);
        }
        let base_offset = i64_at(bytes, 0);
        let length = usize::try_from(i32_at(bytes, 8)).unwrap_or(0) + LENGTH_FROM;
        if length < HEADER_BYTES {
            return Err(Failure::bad("a batch shorter than its header").at(base_offset));
        }
        if bytes.len() < length {
            return Ok(None);
        }
        if bytes[16] != 2 {
            let reason = format!("record batches of version {} are not read", bytes[16]);
            return Err(Failure::bad(reason).at(base_offset));
        }
        let delta = i32_at(bytes, 23);
        if base_offset < 0 || delta < 0 {
            return Err(Failure::bad("a negative offset").at(base_offset));
        }
        Ok(Some(Self {
            base_offset,
            bytes: length,
            last_offset: base_offset.saturating_add(delta.into()),
            producer_id: i64_at(bytes, 43),
            attributes: i16_at(bytes, 21),
            base_ms: i64_at(bytes, 27),
            max_ms: i64_at(bytes, 35),
            count: i32_at(bytes, 57),
        }))
    }

    /// The offset behind this batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset.saturating_add(1)
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// The records of this batch, unpacked behind what `plain` holds. `batch` are its bytes.
    pub fn open(
        &self,
        batch: &[u8],
        decompressor: &mut Decompressor,
        plain: &mut Vec<u8>,
    ) -> Result<Unread> {
        let at = plain.len();
        self.unpack(batch, decompressor, plain).map_err(|error| error.at(self.base_offset))?;
        Ok(Unread { header: *self, at, end: plain.len(), left: self.count.max(0) })
    }

    fn unpack(
        &self,
        batch: &[u8],
        decompressor: &mut Decompressor,
        plain: &mut Vec<u8>,
    ) -> Result<()> {
        if crc32c::crc32c(&batch[CRC_FROM..]) != i32_at(batch, 17) as u32 {
            return Err(Failure::bad("the batch does not have its checksum"));
        }
        match self.attributes & CODEC {
            0 => plain.extend_from_slice(&batch[HEADER_BYTES..]),
            LZ4 => decompressor.decompress(&batch[HEADER_BYTES..], plain)?,
            other => return Err(Failure::bad(format!("compression {other} is not read"))),
        }
        match u32::try_from(plain.len()) {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::bad("more than 4 GiB at once")),
        }
    }
}

/// Whether a control batch ends its transaction with an abort. `plain` are its records.
pub fn is_abort(plain: &[u8]) -> Result<bool> {
    let mut cursor = Cursor { bytes: plain, at: 0 };
    cursor.varint()?;
    cursor.take(1)?;
    cursor.varint()?;
    cursor.varint()?;
    match cursor.nullable()? {
        Some([_, _, high, low]) => Ok([*high, *low] == [0, 0]),
        _ => Err(Failure::bad("a control record without a type")),
    }
}

/// The records of an opened batch that were not decoded yet: bytes `at` to `end` of the unpacked ones.
pub struct Unread {
    header: Header,
    at: usize,
    end: usize,
    left: i32,
}

impl Unread {
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    /// Move what is left to the begin of another buffer.
    pub fn move_to(&mut self, from: &[u8], to: &mut Vec<u8>) {
        let at = to.len();
        to.extend_from_slice(&from[self.at..self.end]);
        (self.at, self.end) = (at, to.len());
    }

    /// Decode up to `most` records from offset `from` on.
    pub fn decode(&mut self, most: usize, from: i64, into: &mut Records) -> Result<()> {
        let base = self.header.base_offset;
        let mut offset = base;
        self.decode_to(most, from, into, &mut offset).map_err(|error| error.at(offset))
    }

    fn decode_to(
        &mut self,
        most: usize,
        from: i64,
        into: &mut Records,
        offset: &mut i64,
    ) -> Result<()> {
        let appended =
            (self.header.attributes & LOG_APPEND_TIME != 0).then_some(self.header.max_ms);
        let Records { plain, spans, ids, rows, offsets, times } = into;
        let full = spans.len() + most;
        let mut cursor = Cursor { bytes: &plain[..self.end], at: self.at };
        while self.left > 0 && spans.len() < full {
            let length = cursor.varint()?;
            let end = cursor.at.checked_add(usize::try_from(length).map_err(|_| cut_off())?);
            let end = end.filter(|end| *end <= self.end).ok_or_else(cut_off)?;
            let mut record = Cursor { bytes: &plain[..end], at: cursor.at };
            record.take(1)?;
            let delta_ms = record.varint()?;
            *offset = self.header.base_offset.saturating_add(record.varint()?);
            let begin = record.at;
            let key = record.nullable()?;
            check_rest(&mut record)?;
            if *offset >= from {
                if let Some(key) = key.filter(|key| !key.is_empty()) {
                    ids.extend_from_slice(&pack_id(key));
                    rows.extend_from_slice(&spans.len().to_ne_bytes());
                }
                spans.push(Span { begin: begin as u32, end: end as u32 });
                offsets.extend_from_slice(&offset.to_ne_bytes());
                let ms = appended.unwrap_or(self.header.base_ms.saturating_add(delta_ms));
                times.extend_from_slice(&ms.to_ne_bytes());
            }
            cursor.at = end;
            self.left -= 1;
        }
        self.at = cursor.at;
        if self.left == 0 && self.at != self.end {
            return Err(Failure::bad("bytes behind the last record of a batch"));
        }
        Ok(())
    }
}

/// Check value and headers, which are forwarded as they are.
#[inline]
fn check_rest(record: &mut Cursor) -> Result<()> {
    record.nullable()?;
    for _ in 0..record.varint()? {
        let length = record.varint()?;
        record.take(length)?;
        record.nullable()?;
    }
    match record.at == record.bytes.len() {
        true => Ok(()),
        false => Err(Failure::bad("bytes behind the headers of a record")),
    }
}

/// Where a record is in the unpacked bytes, from its key length on.
#[derive(Clone, Copy)]
pub struct Span {
    pub begin: u32,
    pub end: u32,
}

/// Decoded records. The arrays are of machine integers of 8 bytes, as NumPy reads them: `rows` are the positions of
/// records with an id, `ids` their 16 bytes each, `offsets` and `times` are of all records.
#[derive(Default)]
pub struct Records {
    pub plain: Vec<u8>,
    pub spans: Vec<Span>,
    pub ids: Vec<u8>,
    pub rows: Vec<u8>,
    pub offsets: Vec<u8>,
    pub times: Vec<u8>,
}

/// Name and value of a header.
pub type Pair<'a> = (&'a [u8], Option<&'a [u8]>);

/// One record, for the few of which Python needs more than the arrays.
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Vec<Pair<'a>>,
}

impl Records {
    pub fn body(&self, row: usize) -> &[u8] {
        let Span { begin, end } = self.spans[row];
        &self.plain[begin as usize..end as usize]
    }

    pub fn time_ms(&self, row: usize) -> i64 {
        i64::from_ne_bytes(array(&self.times, 8 * row))
    }

    pub fn record(&self, row: usize) -> Result<Record<'_>> {
        let mut cursor = Cursor { bytes: self.body(row), at: 0 };
        let (key, value) = (cursor.nullable()?, cursor.nullable()?);
        let mut headers = Vec::new();
        for _ in 0..cursor.varint()? {
            let length = cursor.varint()?;
            headers.push((cursor.take(length)?, cursor.nullable()?));
        }
        Ok(Record { key, value, headers })
    }
}
