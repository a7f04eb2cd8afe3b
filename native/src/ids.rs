//! Ids of 16 bytes, as `dedupe_ids.extract.pack_id` makes them (docs/decisions/0006).
//!
//! A canonical lowercase UUID text becomes its own 16 bytes, anything else the BLAKE2b hash of its bytes.

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};

const UUID_CHARS: usize = 36;
const DASHES: [usize; 4] = [8, 13, 18, 23];
/// Where each byte of a UUID stands in its text.
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const NO_DIGIT: u8 = 0xff;
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

pub fn pack_id(raw: &[u8]) -> [u8; 16] {
    pack_uuid(raw).unwrap_or_else(|| Blake2b::<U16>::digest(raw).into())
}

fn pack_uuid(raw: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; UUID_CHARS] = raw.try_into().ok()?;
    if DASHES.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut packed = [0; 16];
    let mut seen = 0;
    for (byte, at) in packed.iter_mut().zip(PAIRS) {
        let (high, low) = (DIGITS[text[at] as usize], DIGITS[text[at + 1] as usize]);
        seen |= high | low;
        *byte = high << 4 | low & 0x0f;
    }
    (seen != NO_DIGIT).then_some(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_uuid_is_its_own_bytes() {
        let id = pack_id(b"00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(id, core::array::from_fn(|at| 0x11 * at as u8));
    }

    #[test]
    fn another_spelling_is_hashed() {
        let id = pack_id(b"00112233-4455-6677-8899-aabbccddeeff");
        for other in [
            b"00112233-4455-6677-8899-AABBCCDDEEFF".as_slice(),
            b"00112233-4455-6677-8899-aabbccddeefg",
            b"00112233-4455-6677-8899aabb-ccddeeff",
            b"00112233445566778899aabbccddeeff",
        ] {
            assert_ne!(pack_id(other), id);
            assert_eq!(pack_id(other), <[u8; 16]>::from(Blake2b::<U16>::digest(other)));
        }
    }
}
