//! The header `traceparent`, which names a span: <https://www.w3.org/TR/trace-context-2/#traceparent-header>. Makes no span.

use crate::hex;
use alloc::string::String;

/// A span, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// Trace; not all zero.
    pub trace_id: [u8; 16],
    /// The span; not all zero.
    pub span_id: [u8; 8],
    /// True if the process that made the span may have recorded it.
    pub is_sampled: bool,
}

impl Traceparent {
    /// Reads a header of version 00, or what a later version has in common with it; `None` if it names no span.
    pub fn parse(header: &str) -> Option<Self> {
        let (known, more) = header.split_at_checked(BYTES)?;
        let are_hyphens = [2, 35, 52].iter().all(|at| known.as_bytes()[*at] == b'-');
        let is_lower = !known.bytes().any(|byte| byte.is_ascii_uppercase());
        let [version] = hex::array(known.get(..2)?)?;
        let is_of_a_version = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        let trace_id = hex::array(known.get(3..35)?)?;
        let span_id = hex::array(known.get(36..52)?)?;
        let [flags] = hex::array(known.get(53..)?)?;
        let names_a_span = trace_id != [0; 16] && span_id != [0; 8];
        (are_hyphens && is_lower && is_of_a_version && names_a_span).then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & SAMPLED != 0,
        })
    }

    /// Returns the header of version 00. Each attempt has one, and to format it takes several times as long.
    pub fn header(&self) -> String {
        let mut header = String::with_capacity(BYTES);
        header.push_str("00-");
        hex::push(&mut header, &self.trace_id);
        header.push('-');
        hex::push(&mut header, &self.span_id);
        header.push_str(if self.is_sampled { "-01" } else { "-00" });
        header
    }
}

/// What a header of version 00 takes.
const BYTES: usize = 55;
/// The flag of a span that may have been recorded.
const SAMPLED: u8 = 1;

#[cfg(test)]
mod tests {
    use super::Traceparent;
    use alloc::format;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_comes_back_from_what_it_names() {
        for header in [SAMPLED, "00-00000000000000000000000000000001-f000000000000000-00"] {
            let named = Traceparent::parse(header).unwrap();
            assert_eq!(named.header(), header);
        }
        let named = Traceparent::parse(SAMPLED).unwrap();
        assert_eq!(
            (named.trace_id[0], named.span_id[7], named.is_sampled),
            (0x0a, 0x31, true)
        );
    }

    #[test]
    fn other_flags_and_later_versions_are_read() {
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let header = format!("{}{flags}", &SAMPLED[..53]);
            assert_eq!(Traceparent::parse(&header).unwrap().is_sampled, is_sampled);
        }
        let later = SAMPLED.replacen("00-", "01-", 1);
        let named = Traceparent::parse(SAMPLED);
        assert_eq!(Traceparent::parse(&later), named);
        assert_eq!(Traceparent::parse(&format!("{later}-more")), named);
        assert_eq!(Traceparent::parse(&format!("{later}more")), None);
    }

    #[test]
    fn what_names_no_span_is_nothing() {
        let wide = SAMPLED.replacen("0af7", "\u{e9}\u{e9}", 1);
        for wrong in [
            "",
            "00",
            &SAMPLED[1..],
            &SAMPLED[..54],
            &SAMPLED.to_uppercase(),
            &format!("{SAMPLED}-00"),
            &format!("{SAMPLED} "),
            &SAMPLED.replacen("00-", "ff-", 1),
            &SAMPLED.replace('-', "_"),
            &SAMPLED.replace("-b", "bb"),
            &SAMPLED.replacen("0a", "+a", 1),
            &SAMPLED.replacen("0a", "0g", 1),
            &wide,
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(Traceparent::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(wide.len(), SAMPLED.len());
    }
}
