//! Stories about contents and input requests. Removes nothing.

use escapement_model::Namespace;

use super::lists::exactly;
use super::sample::{content, revision};
use super::{ALL, Make, RunSample, commit, reader, refused};
use escapement_store::runs::{Listing, RunConflict, Scope, StoredInputRequest};

pub(super) fn a_content_is_kept_until_the_last_run_releases_it(make: Make<'_>) {
    let mut subject = make();
    let (one, two) = (RunSample::new(1), RunSample::new(2));
    let (shared, own) = (content(1), content(2));
    let mut first = one.create();
    first.contents = vec![shared.clone(), own.clone(), shared.clone()];
    let mut second = two.create();
    second.contents = vec![shared.clone()];
    commit(&mut *subject, [first, second]);
    let found = reader(&mut *subject).content(&own.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(own.bytes()));

    let mut releases = one.append(2, 0);
    releases.released = vec![shared.digest(), own.digest()];
    commit(&mut *subject, [releases]);
    assert_eq!(reader(&mut *subject).content(&own.digest()).expect("reads"), None);
    let found = reader(&mut *subject).content(&shared.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(shared.bytes()), "the other run refers to it");

    // What one run releases and another one pins in the same batch stays.
    let mut releases = two.append(2, 0);
    releases.released = vec![shared.digest()];
    let mut pins = one.append(2, 0);
    pins.pinned = vec![shared.digest()];
    commit(&mut *subject, [releases, pins]);
    let found = reader(&mut *subject).content(&shared.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(shared.bytes()));
}

pub(super) fn a_run_that_is_purged_keeps_documents_alone(make: Make<'_>) {
    let mut subject = make();
    let (one, two) = (RunSample::new(1), RunSample::new(2));
    let (own, shared, late, document) = (content(1), content(2), content(3), revision(1, [1; 32]));
    let mut first = one.create();
    first.contents = vec![own.clone(), shared.clone(), document.clone()];
    let mut second = two.create();
    second.contents = vec![shared.clone()];
    commit(&mut *subject, [first, second]);

    // What comes with the last write goes, too; what another run of the batch pins stays.
    let mut purges = one.end(2);
    purges.contents = vec![late.clone()];
    purges.purges = true;
    let mut pins = two.append(2, 0);
    pins.pinned = vec![late.digest()];
    commit(&mut *subject, [purges, pins]);
    let reader = reader(&mut *subject);
    let found = |digest| reader.content(&digest).expect("reads");
    assert_eq!(found(own.digest()), None);
    for kept in [&shared, &late, &document] {
        assert_eq!(found(kept.digest()).as_ref(), Some(kept.bytes()));
    }
    let journal = reader.journal(one.run_id(), 1, ALL).expect("reads");
    assert_eq!(
        journal.map(|page| page.entries.len()),
        Some(2),
        "its journal stays"
    );
}

pub(super) fn a_missing_content_cannot_be_pinned(make: Make<'_>) {
    let mut subject = make();
    let (one, two) = (RunSample::new(3), RunSample::new(4));
    let missing = content(3);
    let mut pins = two.create();
    pins.pinned = vec![missing.digest()];
    let expected = RunConflict::ContentMissing {
        digest: missing.digest(),
    };
    assert_eq!(refused(&mut *subject, [one.create(), pins.clone()]), expected);
    // An earlier write of the same batch may bring it.
    let mut brings = one.create();
    brings.contents = vec![missing.clone()];
    commit(&mut *subject, [brings, pins]);
    let found = reader(&mut *subject).content(&missing.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(missing.bytes()));
}

pub(super) fn input_requests_are_listed_while_they_are_open(make: Make<'_>) {
    let mut subject = make();
    let samples: Vec<RunSample> = (1..=6).map(RunSample::new).collect();
    for sample in &samples {
        let mut asks = sample.create();
        asks.opened = vec![sample.input_request(1), sample.input_request(2)];
        commit(&mut *subject, [asks]);
    }
    let mut answers = samples[0].append(2, 1);
    answers.closed = vec![samples[0].answer(2)];
    commit(&mut *subject, [answers]);

    let reader = reader(&mut *subject);
    let numbers =
        |found: &[StoredInputRequest]| found.iter().map(|request| request.number).collect::<Vec<_>>();
    let (mut all, mut after) = (Vec::new(), Some(0));
    while after.is_some() {
        let page = reader.open_input_requests(None, after, 2).expect("reads");
        all.extend(numbers(&page.requests));
        after = page.next;
    }
    assert_eq!(all, (1..=12).filter(|number| *number != 2).collect::<Vec<_>>());
    let owner = samples[0].created.owner.as_deref();
    let of_owner = reader.open_input_requests(Scope::each(owner, None).as_deref(), None, 100);
    let of_owner = of_owner.expect("reads").requests;
    assert_eq!(numbers(&of_owner), [1, 7, 8], "of the runs 1 and 4");
    let expected = StoredInputRequest {
        namespace: samples[0].created.namespace.clone(),
        number: 1,
        id: samples[0].input_request(1).id,
        run_id: samples[0].run_id(),
        kind: 1,
        state: 1,
        owner: samples[0].created.owner.clone(),
        opened_at: 5,
        due_at: Some(50),
        closed_at: None,
        record: samples[0].input_request(1).record,
    };
    assert_eq!(of_owner[0], expected);
    for name in ["default", "billing", "agents"] {
        let wanted = [Namespace::parse(name).expect("a name of a namespace")];
        let found = reader
            .open_input_requests(Scope::each(None, Some(&wanted)).as_deref(), None, 100)
            .expect("reads")
            .requests;
        let is_shown = |number: &u64| {
            let sample = &samples[(*number as usize - 1) / 2];
            *number != 2 && sample.created.namespace == wanted[0]
        };
        let expected: Vec<u64> = (1..=12).filter(is_shown).collect();
        assert_eq!(numbers(&found), expected, "{name}");
        assert!(!expected.is_empty(), "{name}");
    }
    for (kind, run_id, n) in [
        (None, None, 11),
        (Some(1), None, 6),
        (Some(2), None, 5),
        (None, Some(samples[0].run_id()), 1),
    ] {
        let listing = Listing::OpenInputRequests {
            scopes: None,
            kind,
            run_id,
        };
        assert_eq!(reader.count(listing).expect("reads"), exactly(n), "{kind:?}");
    }
    let nobody = reader.open_input_requests(Scope::each(Some("nobody"), None).as_deref(), None, 100);
    assert_eq!(nobody.expect("reads").requests, []);
}

pub(super) fn an_input_request_closes_once_and_in_its_run(make: Make<'_>) {
    let mut subject = make();
    let (one, two) = (RunSample::new(7), RunSample::new(8));
    let mut asks = one.create();
    asks.opened = vec![one.input_request(1), one.input_request(2)];
    commit(&mut *subject, [asks, two.create()]);
    let not_open = |n| RunConflict::InputRequestNotOpen { id: one.answer(n).id };
    let answers = |sample: &RunSample, n| {
        let mut write = sample.append(2, 0);
        write.closed = vec![one.answer(n)];
        write
    };
    assert_eq!(refused(&mut *subject, [answers(&two, 1)]), not_open(1));
    assert_eq!(refused(&mut *subject, [answers(&one, 3)]), not_open(3));
    commit(&mut *subject, [answers(&one, 1)]);
    commit(&mut *subject, [answers(&one, 2)]);
    assert_eq!(refused(&mut *subject, [answers(&one, 1)]), not_open(1));
    for n in [1, 2] {
        let found = reader(&mut *subject)
            .input_request(one.answer(n).id)
            .expect("reads");
        let found = found.expect("it is kept with its run");
        assert_eq!((found.state, found.closed_at), (2, Some(7)));
        let record = one.answer(n).record.unwrap_or(one.input_request(n).record);
        assert_eq!(found.record, record);
    }
    let mut again = one.append(2, 0);
    again.opened = vec![one.input_request(1)];
    let used = RunConflict::InputRequestIdUsed {
        id: one.input_request(1).id,
    };
    assert_eq!(refused(&mut *subject, [again]), used);
}
