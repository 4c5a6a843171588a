//! Deliveries to webhooks: believed if they are signed, and then fired once for each id. Opens no port.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use escapement_model::{Opaque, PlanId};
use escapement_runs_shell::CallError;
use escapement_triggers::{Cause, Secret, verify};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;

use super::Triggers;
use super::firing::{Found, now_ms};
use super::record::Kept;
use super::service::DATA_BYTES_MAX;
use crate::errors::Rejection;

/// One call of a webhook.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Whose webhook, as its path says.
    pub trigger_id: String,
    /// `webhook-id`: at most 255 bytes.
    pub id: String,
    /// `webhook-timestamp`: Unix seconds.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// Who sends it.
    pub source: IpAddr,
    /// At most 1 MiB.
    pub body: Bytes,
}

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It has fired: the firing, its status, and its run, empty if there is none.
    Fired {
        /// 64 hexadecimal digits.
        firing_id: String,
        /// As [`v1::Firing`] has it.
        status: String,
        /// The run.
        run_id: String,
    },
    /// It is not believed: another trigger, secret, time or source.
    NotBelieved,
    /// It was delivered before.
    Repeated,
    /// The trigger does not fire by itself.
    Disabled,
    /// Its body is no JSON object of a bounded size.
    NoObject,
    /// It is not known whether it has fired; it may be sent again.
    Later,
}

impl Triggers {
    // TRIG-5.1
    /// Checks a delivery before its body is read: its webhook and the owner of that, its id, the form of its
    /// time, and its source.
    ///
    /// # Errors
    /// [`Delivered::NotBelieved`], which is counted, or [`Delivered::Later`]. Without an error the body decides.
    pub async fn expects(&self, delivery: &Delivery) -> Result<(), Delivered> {
        let is_formed = delivery.timestamp.parse::<u64>().is_ok() && !delivery.signature.is_empty();
        let known = match is_formed {
            true => self.known(delivery).await.map_err(|_| Delivered::Later)?,
            false => None,
        };
        if known.is_none() {
            self.0.n_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Delivered::NotBelieved);
        }
        Ok(())
    }

    // TRIG-5.1
    /// Takes a delivery. What it starts is durable when this answers. `read`: the object that a body is, if it is one.
    pub async fn deliver(&self, delivery: Delivery, read: fn(&[u8]) -> Option<Opaque>) -> Delivered {
        let kept = match self.webhook(&delivery).await {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                self.0.n_refused.fetch_add(1, Ordering::Relaxed);
                return Delivered::NotBelieved;
            }
            Err(_) => return Delivered::Later,
        };
        if !kept.is_enabled() {
            return Delivered::Disabled;
        }
        let Some(data) = read(&delivery.body).filter(|data| data.len() <= DATA_BYTES_MAX) else {
            return Delivered::NoObject;
        };
        if data.check().is_err() {
            return Delivered::NoObject;
        }
        let found = Found::new(Cause::Delivery(delivery.id), now_ms(), data);
        match self.fire(&delivery.trigger_id, found).await {
            Ok(Some(fired)) if fired.is_new => {
                let v1::Firing {
                    firing_id,
                    status,
                    run_id,
                    ..
                } = fired.firing;
                Delivered::Fired {
                    firing_id,
                    status,
                    run_id,
                }
            }
            Ok(Some(_)) => Delivered::Repeated,
            Ok(None) => Delivered::Disabled,
            Err(_) => Delivered::Later,
        }
    }

    /// The trigger, if the delivery is believed.
    async fn webhook(&self, delivery: &Delivery) -> Result<Option<Kept>, Rejection> {
        let Some((kept, secret)) = self.known(delivery).await? else {
            return Ok(None);
        };
        let Delivery {
            id,
            timestamp,
            body,
            signature,
            ..
        } = delivery;
        let verified = verify(&secret, id, timestamp, body, signature, now_ms());
        Ok(verified.is_ok().then_some(kept))
    }

    /// Returns the trigger and its secret, if its webhook takes deliveries from that source.
    async fn known(&self, delivery: &Delivery) -> Result<Option<(Kept, Secret)>, Rejection> {
        let is_id = delivery.trigger_id.parse::<PlanId>().is_ok();
        if !is_id || delivery.id.is_empty() || delivery.id.len() > ID_BYTES_MAX {
            return Ok(None);
        }
        let kept = match self.stored(&delivery.trigger_id).await {
            Ok(found) => found.map(|(_, kept)| kept),
            Err(CallError::Damaged(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(kept) = kept else { return Ok(None) };
        let Some(Config::Webhook(webhook)) = &kept.trigger.config else {
            return Ok(None);
        };
        let sources = &webhook.allowed_sources;
        let is_allowed = sources.is_empty() || sources.iter().any(|source| holds(source, delivery.source));
        let secret = Secret::read(&webhook.secret).filter(|_| is_allowed);
        Ok(secret.map(|secret| (kept, secret)))
    }
}

/// Returns the sender of a delivery, which is the peer of its connection unless the peer is a trusted proxy.
/// For such a proxy it is the last address of `x-forwarded-for` that is not a trusted proxy. `forwarded`: the
/// values of that header, in their order.
pub(crate) fn source_of<'a>(
    peer: IpAddr,
    forwarded: impl DoubleEndedIterator<Item = &'a str>,
    proxies: &[String],
) -> IpAddr {
    let is_trusted = |address: IpAddr| proxies.iter().any(|proxy| holds(proxy, address));
    let mut source = peer;
    let said = forwarded.rev().flat_map(|value| value.rsplit(','));
    for text in said {
        if !is_trusted(source) {
            break;
        }
        // What cannot be read was not written by a proxy that we trust.
        let Ok(address) = text.trim().parse() else { break };
        source = address;
    }
    source
}

/// Reads an address, or one followed by a slash and the length of a network prefix.
///
/// # Errors
/// What the text must be.
pub fn parse_source(text: &str) -> Result<String, &'static str> {
    match is_source(text) {
        true => Ok(text.to_owned()),
        false => Err("must be an address, or an address, a slash and the bits of its network"),
    }
}

/// True for an address, and for one with the length of a network behind a slash.
pub(super) fn is_source(text: &str) -> bool {
    network(text).is_some()
}

fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => most,
        Some(length) => length.parse().ok().filter(|length| *length <= most)?,
    };
    Some((address, length))
}

/// Whether an address is in a network.
fn holds(source: &str, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let Some((network, length)) = network(source) else {
        return false;
    };
    // A connection over IPv6 may come from an IPv4 address.
    let (one, width) = bits(network.to_canonical());
    let (other, other_width) = bits(address.to_canonical());
    width == other_width
        && (length == 0 || one >> (width - length.min(width)) == other >> (width - length.min(width)))
}

/// Bytes of the id of a delivery.
const ID_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::{holds, is_source, source_of};

    #[test]
    fn the_sender_is_the_peer_or_whom_a_trusted_proxy_names() {
        let proxies = ["10.0.0.0/8".to_owned()];
        for (peer, forwarded, source) in [
            // A peer that connects directly is not trusted about other addresses.
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            // What stands in front of it came from the sender.
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
        ] {
            let [peer, source] = [peer, source].map(|text| text.parse().unwrap());
            let found = source_of(peer, forwarded.iter().copied(), &proxies);
            assert_eq!(found, source, "{peer} {forwarded:?}");
            assert_eq!(source_of(peer, forwarded.iter().copied(), &[]), peer);
        }
    }

    #[test]
    fn a_source_is_an_address_or_a_network() {
        for (source, address, is_in) in [
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.0/24", "192.0.2.8", true),
            ("192.0.2.0/24", "192.0.3.8", false),
            ("192.0.2.7", "::ffff:192.0.2.7", true),
            ("0.0.0.0/0", "10.1.1.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
        ] {
            assert!(is_source(source));
            assert_eq!(
                holds(source, address.parse().unwrap()),
                is_in,
                "{source} {address}"
            );
        }
        for wrong in ["", "host", "192.0.2.0/33", "192.0.2.0/", "::/129", "1.2.3"] {
            assert!(!is_source(wrong), "{wrong}");
        }
    }
}
