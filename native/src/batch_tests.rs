//! What is encoded is decoded again, and bad bytes are refused.

use crate::failure::Result;
use crate::growing::{Growing, Producer, put_varint};
use crate::ids::pack_id;
use crate::lz4::Decompressor;
use crate::records::{
    CRC_FROM, HEADER_BYTES, Header, LOG_APPEND_TIME, Pair, Records, Span, TRANSACTIONAL, cut_off,
};

const PRODUCER: Producer = Producer { id: 7, epoch: 1, sequence: 40 };
const BASE_OFFSET: usize = 0;
const ATTRIBUTES: usize = 21;

fn varint(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    bytes
}

fn nullable(bytes: Option<&[u8]>) -> Vec<u8> {
    [varint(bytes.map_or(-1, |each| each.len() as i64)), bytes.unwrap_or_default().to_vec()]
        .concat()
}

/// Records with odd keys, values, headers and times, as if they were read.
fn odd() -> Records {
    let mut records = Records::default();
    type Content<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [Pair<'a>]);
    let contents: [Content; 5] = [
        (Some(b"00112233-4455-6677-8899-aabbccddeeff"), Some(b"v"), &[(b"source", Some(b"web"))]),
        (None, None, &[]),
        (Some(b""), Some(b""), &[(b"", None), (b"", Some(b""))]),
        (Some(b"other"), Some(&[9; 3000]), &[]),
        (Some(b"k"), Some(b"again"), &[(b"a", Some(b"1")), (b"a", Some(b"2"))]),
    ];
    for (row, (key, value, headers)) in contents.into_iter().enumerate() {
        let begin = records.plain.len() as u32;
        records.plain.extend([nullable(key), nullable(value)].concat());
        records.plain.extend(varint(headers.len() as i64));
        for (name, value) in headers {
            records.plain.extend([nullable(Some(name)), nullable(*value)].concat());
        }
        records.spans.push(Span { begin, end: records.plain.len() as u32 });
        records.times.extend_from_slice(&(1_000 - 300 * row as i64).to_ne_bytes());
    }
    records
}

fn batch(is_compressed: bool) -> Vec<u8> {
    let mut growing = Growing::new(1 << 20, is_compressed).unwrap();
    let records = odd();
    assert!((0..records.spans.len()).all(|row| growing.push(&records, row)));
    growing.finish(PRODUCER).unwrap().concat()
}

fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
}

fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    put(batch, 17, &crc.to_be_bytes());
}

fn read_from(batch: &[u8], from: i64, step: usize) -> Result<Records> {
    let mut decompressor = Decompressor::new()?;
    let mut records = Records::default();
    let header = Header::of_next(batch)?.ok_or_else(cut_off)?;
    let mut unread = header.open(batch, &mut decompressor, &mut records.plain)?;
    while !unread.is_done() {
        unread.decode(step, from, &mut records)?;
    }
    Ok(records)
}

#[test]
fn what_was_encoded_is_decoded_again() {
    for (is_compressed, step) in [(true, 100), (false, 100), (true, 1), (false, 2)] {
        let (wrote, found) = (odd(), read_from(&batch(is_compressed), 0, step).unwrap());
        assert_eq!(found.spans.len(), 5);
        for row in 0..5 {
            assert_eq!(found.body(row), wrote.body(row));
            assert_eq!(found.time_ms(row), wrote.time_ms(row));
            assert_eq!(found.offsets[8 * row..8 * row + 8], (row as i64).to_ne_bytes());
        }
        let with_id: Vec<u8> = [0usize, 3, 4].iter().flat_map(|row| row.to_ne_bytes()).collect();
        assert_eq!(found.rows, with_id, "a null key and an empty one are no ids");
        assert_eq!(found.ids[..16], core::array::from_fn::<u8, 16, _>(|at| 0x11 * at as u8));
        assert_eq!(found.ids[16..32], pack_id(b"other"));
    }
}

#[test]
fn a_read_begins_within_a_batch() {
    let mut bytes = batch(true);
    put(&mut bytes, BASE_OFFSET, &100i64.to_be_bytes());
    let found = read_from(&bytes, 103, 100).unwrap();
    assert_eq!(found.offsets, [103i64.to_ne_bytes(), 104i64.to_ne_bytes()].concat());
    assert_eq!(found.ids.len(), 32);
}

#[test]
fn with_log_append_time_all_records_have_the_broker_s_time() {
    let mut bytes = batch(false);
    put(&mut bytes, ATTRIBUTES, &(TRANSACTIONAL | LOG_APPEND_TIME).to_be_bytes());
    put(&mut bytes, 35, &5_000i64.to_be_bytes());
    seal(&mut bytes);
    assert_eq!(read_from(&bytes, 0, 100).unwrap().times, 5_000i64.to_ne_bytes().repeat(5));
}

#[test]
fn a_time_of_0_becomes_1_as_with_librdkafka() {
    let mut records = odd();
    records.times = 0i64.to_ne_bytes().repeat(5);
    let mut growing = Growing::new(1 << 20, true).unwrap();
    growing.push(&records, 0);
    let bytes = growing.finish(PRODUCER).unwrap().concat();
    assert_eq!(read_from(&bytes, 0, 100).unwrap().times, 1i64.to_ne_bytes());
}

#[test]
fn a_batch_is_bounded_but_for_a_single_record() {
    let records = odd();
    let mut growing = Growing::new(1_000, false).unwrap();
    assert!(growing.push(&records, 0));
    assert!(!growing.push(&records, 3));
    growing.clear();
    assert!(growing.push(&records, 3));
    assert!(!growing.push(&records, 0));
    growing.clear();
    assert!((0..3).all(|row| growing.push(&records, row)));
    assert!(growing.finish(PRODUCER).unwrap().concat().len() < 1_000);
}

#[test]
fn bad_bytes_are_refused_with_their_offset() {
    let mut bytes = batch(true);
    put(&mut bytes, BASE_OFFSET, &100i64.to_be_bytes());
    let reason = |bytes: &[u8]| read_from(bytes, 0, 100).err().unwrap().reason;
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        seal(&mut bytes);
        bytes
    };
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(reason(&damaged), "offset 100: the batch does not have its checksum");
    assert_eq!(reason(&changed(16, 1)), "offset 100: record batches of version 1 are not read");
    assert_eq!(reason(&changed(22, 4)), "offset 100: compression 4 is not read");
    assert!(reason(&changed(HEADER_BYTES, 0)).starts_with("offset 100: lz4: not a frame"));
    assert!(reason(&changed(60, 6)).contains("a record is longer than its batch"));
    assert!(reason(&changed(60, 4)).contains("bytes behind the last record"));
    assert!(Header::of_next(&bytes[..bytes.len() - 1]).unwrap().is_none());
}

/// Whatever the bytes are, there is a result and no panic.
#[test]
fn random_damage_is_survived() {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut refused = 0;
    for turn in 0..40_000 {
        let mut bytes = batch(turn % 2 == 0);
        for _ in 0..=random(3) {
            let at = 12 + random(bytes.len() - 12);
            bytes[at] = random(256) as u8;
        }
        seal(&mut bytes);
        match read_from(&bytes, 0, 100) {
            Ok(found) => {
                for row in 0..found.spans.len() {
                    found.record(row).unwrap();
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000);
}
