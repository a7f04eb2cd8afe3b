//! LZ4 frames of the C library, in independent blocks of 64 KiB, as librdkafka writes them.
//!
//! The only unsafe code of this crate. Invariant: the C library writes only into the spare capacity that a call
//! names, and `set_len` covers only what it reports to have written.
#![allow(unsafe_code)]

use std::ptr;

use crate::failure::{Failure, Result};
use lz4_sys::{
    BlockChecksum, BlockMode, BlockSize, ContentChecksum, FrameType, LZ4F_VERSION,
    LZ4F_compressBegin, LZ4F_compressBound, LZ4F_compressEnd, LZ4F_compressUpdate,
    LZ4F_createCompressionContext, LZ4F_createDecompressionContext, LZ4F_decompress,
    LZ4F_freeCompressionContext, LZ4F_freeDecompressionContext, LZ4F_isError,
    LZ4FCompressionContext, LZ4FDecompressionContext, LZ4FFrameInfo, LZ4FPreferences,
};

const BLOCK_BYTES: usize = 64 << 10;
const FRAME_OVERHEAD_BYTES: usize = 64;
/// A frame that becomes longer than this is not data.
const LONGEST_BYTES: usize = 1 << 30;

fn checked(returned: usize, what: &str) -> Result<usize> {
    // SAFETY: a function of its argument alone.
    match unsafe { LZ4F_isError(returned) } {
        0 => Ok(returned),
        _ => Err(Failure::bad(format!("lz4: {what}"))),
    }
}

pub struct Compressor {
    context: LZ4FCompressionContext,
    preferences: LZ4FPreferences,
}

impl Compressor {
    pub fn new() -> Result<Self> {
        let mut context = LZ4FCompressionContext(ptr::null_mut());
        // SAFETY: it writes a pointer to a new context into `context`.
        let created = unsafe { LZ4F_createCompressionContext(&mut context, LZ4F_VERSION) };
        checked(created, "no memory")?;
        let frame_info = LZ4FFrameInfo {
            block_size_id: BlockSize::Max64KB,
            block_mode: BlockMode::Independent,
            content_checksum_flag: ContentChecksum::NoChecksum,
            frame_type: FrameType::Frame,
            content_size: 0,
            dict_id: 0,
            block_checksum_flag: BlockChecksum::NoBlockChecksum,
        };
        let preferences = LZ4FPreferences {
            frame_info,
            compression_level: 0,
            auto_flush: 1,
            favor_dec_speed: 0,
            reserved: [0; 3],
        };
        Ok(Self { context, preferences })
    }

    /// Append `plain` as one frame.
    pub fn compress(&mut self, plain: &[u8], packed: &mut Vec<u8>) -> Result<()> {
        let preferences: *const LZ4FPreferences = &self.preferences;
        // SAFETY: `preferences` lives in `self`.
        let bound = unsafe { LZ4F_compressBound(plain.len(), preferences) };
        packed.reserve(bound + FRAME_OVERHEAD_BYTES);
        let none = ptr::null();
        for step in 0..3 {
            let room = packed.capacity() - packed.len();
            // SAFETY: `end` has `room` bytes of this vector behind it, and C writes at most `room` there; it reads
            // `plain` within its length; `context` is of `LZ4F_createCompressionContext` and used by one thread.
            unsafe {
                let end = packed.as_mut_ptr().add(packed.len());
                let written = match step {
                    0 => LZ4F_compressBegin(self.context, end, room, preferences),
                    1 => LZ4F_compressUpdate(
                        self.context,
                        end,
                        room,
                        plain.as_ptr(),
                        plain.len(),
                        none,
                    ),
                    _ => LZ4F_compressEnd(self.context, end, room, none),
                };
                packed.set_len(packed.len() + checked(written, "compressing")?);
            }
        }
        Ok(())
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the context is freed once, here.
        unsafe { LZ4F_freeCompressionContext(self.context) };
    }
}

pub struct Decompressor {
    context: LZ4FDecompressionContext,
}

impl Decompressor {
    pub fn new() -> Result<Self> {
        let mut context = LZ4FDecompressionContext(ptr::null_mut());
        // SAFETY: it writes a pointer to a new context into `context`.
        let created = unsafe { LZ4F_createDecompressionContext(&mut context, LZ4F_VERSION) };
        checked(created, "no memory")?;
        Ok(Self { context })
    }

    /// Append what one frame holds. After a failure this is of no more use.
    pub fn decompress(&mut self, packed: &[u8], plain: &mut Vec<u8>) -> Result<()> {
        let begin = plain.len();
        let mut read = 0;
        loop {
            if plain.len() - begin > LONGEST_BYTES {
                return Err(Failure::bad("lz4: the frame has no end"));
            }
            if plain.capacity() - plain.len() < BLOCK_BYTES {
                plain.reserve((2 * packed.len()).max(4 * BLOCK_BYTES));
            }
            let mut written = plain.capacity() - plain.len();
            let mut taken = packed.len() - read;
            // SAFETY: C writes at most `written` bytes behind the vector's end, which are within its capacity, and
            // reads at most `taken` bytes of `packed` from `read` on; `context` is used by one thread.
            let hint = unsafe {
                let hint = LZ4F_decompress(
                    self.context,
                    plain.as_mut_ptr().add(plain.len()),
                    &mut written,
                    packed.as_ptr().add(read),
                    &mut taken,
                    ptr::null(),
                );
                let hint = checked(hint, "not a frame, or damaged")?;
                plain.set_len(plain.len() + written);
                hint
            };
            read += taken;
            if hint == 0 {
                return match read == packed.len() {
                    true => Ok(()),
                    false => Err(Failure::bad("lz4: bytes behind the frame")),
                };
            }
            if taken == 0 && written == 0 {
                return Err(Failure::bad("lz4: the frame is cut off"));
            }
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the context is freed once, here.
        unsafe { LZ4F_freeDecompressionContext(self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Compressor::new().unwrap().compress(plain, &mut packed).unwrap();
        packed
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        Decompressor::new()?.decompress(packed, &mut plain)?;
        Ok(plain)
    }

    #[test]
    fn what_was_compressed_comes_back() {
        for length in [0, 1, 1000, BLOCK_BYTES, 3 * BLOCK_BYTES + 1] {
            let plain: Vec<u8> = (0..length).map(|at| ((at * at) >> 7) as u8).collect();
            assert_eq!(unpacked(&packed(&plain)).unwrap(), plain);
        }
    }

    #[test]
    fn bad_bytes_are_refused() {
        let good = packed(&[7; 1000]);
        assert!(unpacked(&good[..good.len() - 5]).unwrap_err().reason.contains("cut off"));
        assert!(unpacked(&[&good[..], b"x"].concat()).unwrap_err().reason.contains("behind"));
        assert!(unpacked(b"no frame at all").unwrap_err().reason.contains("not a frame"));
    }
}
