//! What lists and look-ups are asked with: ids, tokens, filters, and what leaves as JSON. Serves nothing.

use crate::fixture;
use crate::seeds;
use crate::source::Source;
use escapement_codec::page_token::{decode, encode};
use escapement_model::{AttemptToken, ExecutionId, PlanId, StepId};
use escapement_store::{ListFilter, Reader, StoreFault, StoredState, StoredSummary};

/// The first byte says what the rest is.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    match source.byte() % 8 {
        0 => ids(&source.text()),
        1 | 2 => tokens(&mut source),
        3 => times(source.long().cast_signed()),
        4 => times(source.number()),
        _ => lists(&mut source),
    }
}

/// An id has one canonical form; nothing else but its letter case is another spelling of it.
fn ids(text: &str) {
    let expected = crate::second_validator::normal_id(text);
    let parsed: Result<ExecutionId, _> = text.parse();
    assert_eq!(parsed.ok().map(|id| id.to_string()), expected, "{text:?}");
    assert_eq!(text.parse::<PlanId>().ok().map(|id| id.to_string()), expected);
    assert_eq!(text.parse::<StepId>().ok().map(|id| id.to_string()), expected);
    if let Ok(id) = parsed {
        assert_eq!(
            ExecutionId::from_bytes(*id.as_bytes()),
            Some(id),
            "bytes bring it back"
        );
    }
    let token = AttemptToken::from_hex(text);
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert_eq!(token.is_some(), digits, "{text:?}");
    if let Some(token) = token {
        assert_eq!(token.to_hex(), text.to_ascii_lowercase());
    }
}

/// A token is for one position under one filter; whatever else is said is refused.
fn tokens(source: &mut Source<'_>) {
    let filter = filter(source);
    let before = source.long();
    let token = encode(before, &filter);
    assert_eq!(decode(&token, &filter), Ok(before));
    let other = self::filter(source);
    assert_eq!(
        decode(&token, &other).is_ok(),
        other == filter,
        "{filter:?} and {other:?}"
    );
    let foreign = source.text();
    if let Ok(position) = decode(&foreign, &filter) {
        let ours = encode(position, &filter);
        assert!(
            ours.eq_ignore_ascii_case(&foreign),
            "{foreign:?} is taken for {ours}"
        );
    }
    let mut bent = token.into_bytes();
    let at = source.below(u8::try_from(bent.len()).expect("a token is short"));
    bent[at] = source.byte() & 0x7f;
    let bent = String::from_utf8(bent).expect("it is ASCII");
    if let Ok(position) = decode(&bent, &filter) {
        assert!(encode(position, &filter).eq_ignore_ascii_case(&bent), "{bent}");
    }
}

/// A time in years of four digits reads as the same instant again.
fn times(unix_ms: i64) {
    let text = escapement_wire::time::rfc3339(unix_ms);
    let (first, last) = (-62_135_596_800_000, 253_402_300_799_999);
    if (first..=last).contains(&unix_ms) {
        assert_eq!(unix_ms_of(&text), Some(unix_ms), "{text}");
    }
}

/// Counts years and months one by one, which is slow and plain.
fn unix_ms_of(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let ms = number(20, 23)?;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_before = |year: i64| year * 365 + year / 4 - year / 100 + year / 400;
    let lengths = [
        31,
        28 + i64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let months = lengths.iter().take(usize::try_from(month - 1).ok()?).sum::<i64>();
    (day <= lengths[usize::try_from(month - 1).ok()?]).then_some(())?;
    let days = days_before(year - 1) - days_before(1969) + months + day - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

/// Both stores show exactly what the filter says, newest first, in pages without gaps.
fn lists(source: &mut Source<'_>) {
    let filter = filter(source);
    let limit = 1 + source.below(6);
    let before = match source.byte() {
        0..=127 => None,
        byte @ 128..=199 => Some(u64::from(byte % 24)),
        _ => Some(source.long()),
    };
    fixture::with(|fixture| {
        let matching = |summary: &&StoredSummary| {
            matches(&filter, summary) && before.is_none_or(|before| summary.number < before)
        };
        let expected: Vec<u64> = fixture
            .summaries
            .iter()
            .rev()
            .filter(matching)
            .map(|s| s.number)
            .collect();
        for (name, reader) in [("memory", &fixture.memory), ("embedded", &fixture.embedded)] {
            let shown = walk(reader.as_ref(), &filter, before, limit).expect("a healthy store reads");
            assert_eq!(shown, expected, "{name}: {filter:?} before {before:?}");
        }
    });
}

fn walk(
    reader: &dyn Reader,
    filter: &ListFilter,
    mut before: Option<u64>,
    limit: usize,
) -> Result<Vec<u64>, StoreFault> {
    let mut shown = Vec::new();
    loop {
        let page = reader.list(filter, before, limit)?;
        assert!(page.len() <= limit, "a page has its limit");
        let Some(last) = page.last() else {
            return Ok(shown);
        };
        before = Some(last.number);
        shown.extend(page.iter().map(|summary| summary.number));
    }
}

fn matches(filter: &ListFilter, summary: &StoredSummary) -> bool {
    filter.state.is_none_or(|state| summary.state == state)
        && filter.status.is_none_or(|status| summary.status == status)
        && filter
            .plan_name
            .as_ref()
            .is_none_or(|name| summary.plan_name == *name)
        && filter.tag.as_ref().is_none_or(|tag| summary.tags.contains(tag))
        && (filter.user_id.is_none() || summary.user_id == filter.user_id)
        && filter
            .accepted_after
            .is_none_or(|after| summary.accepted_at >= after)
        && filter
            .accepted_before
            .is_none_or(|before| summary.accepted_at < before)
        && (filter.parent_execution_id.is_none() || summary.parent_execution_id == filter.parent_execution_id)
}

fn filter(source: &mut Source<'_>) -> ListFilter {
    let given = source.byte();
    let has = |bit: u8| given >> bit & 1 == 1;
    let states = [StoredState::Queued, StoredState::Running, StoredState::Settled];
    ListFilter {
        state: has(0).then(|| source.pick(&states)),
        status: has(1).then(|| source.byte() % 5),
        plan_name: has(2).then(|| known_text(source)),
        tag: has(3).then(|| known_text(source)),
        user_id: has(4).then(|| known_text(source)),
        accepted_after: has(5).then(|| time(source)),
        accepted_before: has(6).then(|| time(source)),
        parent_execution_id: has(7).then(|| fixture::parent(source.byte() % 4)),
        namespaces: None,
    }
}

fn known_text(source: &mut Source<'_>) -> String {
    match source.byte() {
        byte @ 0..=199 => fixture::TEXTS[usize::from(byte) % fixture::TEXTS.len()].to_owned(),
        _ => source.text(),
    }
}

fn time(source: &mut Source<'_>) -> i64 {
    match source.byte() {
        byte @ 0..=239 => seeds::UNIX_MS + i64::from(byte % 30) - 3,
        _ => source.number(),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = |kind: u8, text: &str| {
        let length = u8::try_from(text.len()).expect("a short text");
        [vec![kind, length], text.as_bytes().to_vec()].concat()
    };
    let mut all = vec![
        text(0, &seeds::id(3, 1)),
        text(0, &seeds::id(3, 1).to_uppercase()),
        text(0, "0123456789abcdef0123456789ABCDEF"),
        vec![1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 34, b'0', b'1'],
        vec![
            1, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
        ],
        vec![3, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for bit in 0..8 {
        for choice in 0..12 {
            all.push(vec![5, 1 << bit, choice, choice, choice, 0]);
        }
    }
    for given in [0x0f, 0x3c, 0xf1, 0xff] {
        all.push([vec![6, given], vec![3; 12]].concat());
    }
    all
}
