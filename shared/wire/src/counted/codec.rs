//! The codec of all calls: decodes a message only if its lists are counted, and says in our words why the request of a
//! caller cannot be read. Knows no list.

use super::{Counted, LIST_ENTRIES_MAX, has_more_entries};
use crate::ERROR_DOMAIN;
use prost::Message;
use prost::bytes::Buf;
use std::marker::PhantomData;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::{Code, Status};
use tonic_prost::{ProstDecoder, ProstEncoder};
use tonic_types::{ErrorDetails, StatusExt};

/// Encodes `T`, and decodes `U` unless it has too many entries.
#[derive(Debug)]
pub struct CountingCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CountingCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CountingCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Counted + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CountingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(ProstDecoder::default())
    }
}

/// The decoding half.
#[derive(Debug)]
pub struct CountingDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + Counted> Decoder for CountingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // A message lies in one piece; were it in several, the first alone would be counted.
        debug_assert_eq!(source.chunk().len(), source.remaining());
        if has_more_entries(source.chunk(), U::LISTS, LIST_ENTRIES_MAX) {
            let message = format!("The lists of a message may have {LIST_ENTRIES_MAX} entries together.");
            return Err(if U::IS_ASKED {
                unreadable("TOO_MANY_ENTRIES", message)
            } else {
                Status::out_of_range(message)
            });
        }
        self.0.decode(source).map_err(|status| {
            if U::IS_ASKED {
                let message = format!("The request does not decode: {}.", status.message());
                unreadable("REQUEST_UNREADABLE", message)
            } else {
                status
            }
        })
    }
}

fn unreadable(reason: &str, message: String) -> Status {
    let details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, []);
    Status::with_error_details(Code::InvalidArgument, message, details)
}
