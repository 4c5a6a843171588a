//! Messages in gRPC's framing: a flag, four bytes of length, the bytes. Decodes no message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Puts a message into its frame.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("the kit sends no message of 4 GiB");
    prefixed(0, length, message)
}

/// The same with a flag and a length that need not be true.
pub(crate) fn prefixed(flag: u8, length: u32, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(flag);
    frame.put_u32(length);
    frame.put_slice(message);
    frame.freeze()
}

/// Finds frames in what arrives.
#[derive(Debug, Default)]
pub(crate) struct Unframer(BytesMut);

impl Unframer {
    /// More bytes, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next whole message.
    ///
    /// # Errors
    /// It says that it is compressed, which nobody asked for, or it is longer than a message may be.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, String> {
        let Some((prefix, rest)) = self.0.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if flag != 0 {
            return Err(format!(
                "a frame with the flag {flag}, though nobody asked for compression"
            ));
        }
        if length > MESSAGE_BYTES_MAX {
            return Err(format!(
                "a message of {length} bytes; {MESSAGE_BYTES_MAX} are allowed"
            ));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.0.advance(PREFIX_BYTES);
        Ok(Some(self.0.split_to(length).freeze()))
    }
}

const PREFIX_BYTES: usize = 5;
/// What `Welcome.limits` allows, and the kit's own messages keep to.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::{Unframer, framed, prefixed};

    #[test]
    fn a_message_survives_any_cut() {
        let wire = [framed(b"one"), framed(b""), framed(b"three")].concat();
        for cut in 0..wire.len() {
            let mut unframer = Unframer::default();
            let mut found = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                unframer.push(part);
                while let Some(message) = unframer.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"]);
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_there() {
        let mut unframer = Unframer::default();
        unframer.push(&prefixed(0, u32::MAX, b""));
        assert!(unframer.next().unwrap_err().contains("4294967295"));
    }
}
