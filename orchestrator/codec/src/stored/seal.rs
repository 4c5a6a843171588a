//! The seal over a record: what makes a change of its result or its inputs show. Holds no secret.

use super::Unreadable;
use bytes::Bytes;
use escapement_contract::ChainHash;
use escapement_wire::v1;
use prost::Message;
use sha2::{Digest, Sha256};

/// The digests of a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Over the bytes of the result.
    pub result_digest: [u8; 32],
    /// Over the bytes of the inputs.
    pub inputs_digest: [u8; 32],
    /// Over the head of the chain and both.
    pub seal: [u8; 32],
}

impl Seal {
    /// The seal that these parts must have. `head` is the hash of the last entry.
    pub fn over(head: &ChainHash, result: &[u8], inputs: &[u8]) -> Self {
        let result_digest = Sha256::digest(result).into();
        let inputs_digest = Sha256::digest(inputs).into();
        Self {
            result_digest,
            inputs_digest,
            seal: join(head, &result_digest, &inputs_digest),
        }
    }

    /// Returns true if the seal follows from its own digests and this head.
    pub fn joins(&self, head: &ChainHash) -> bool {
        self.seal == join(head, &self.result_digest, &self.inputs_digest)
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        v1::RecordSeal {
            result_digest: self.result_digest.to_vec(),
            inputs_digest: self.inputs_digest.to_vec(),
            seal: self.seal.to_vec(),
        }
        .encode_to_vec()
    }

    /// Reads what is stored.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes do not decode, or a digest has not 32 bytes.
    pub fn decode(bytes: &Bytes) -> Result<Self, Unreadable> {
        let wire = v1::RecordSeal::decode(bytes.clone()).map_err(Unreadable::Wire)?;
        let digest = |bytes: Vec<u8>| {
            <[u8; 32]>::try_from(bytes)
                .map_err(|_| Unreadable::Meaningless("a digest of the seal has not 32 bytes".to_owned()))
        };
        Ok(Self {
            result_digest: digest(wire.result_digest)?,
            inputs_digest: digest(wire.inputs_digest)?,
            seal: digest(wire.seal)?,
        })
    }
}

fn join(head: &ChainHash, result_digest: &[u8; 32], inputs_digest: &[u8; 32]) -> [u8; 32] {
    Sha256::new()
        .chain_update((NAME.len() as u64).to_be_bytes())
        .chain_update(NAME)
        .chain_update(head)
        .chain_update(result_digest)
        .chain_update(inputs_digest)
        .finalize()
        .into()
}

/// Names what is hashed; a change of it must change this text.
const NAME: &str = "escapement seal 1";
