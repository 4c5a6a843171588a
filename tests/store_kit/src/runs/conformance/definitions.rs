//! Stories about saved plans and action profiles. Knows no plan.

use escapement_model::Namespace;

use super::lists::exactly;
use super::sample::content;
use super::{Make, ReopenableRuns, RunSample, commit, reader, refused};
use escapement_store::runs::limits::{DEFINITION_BYTES_MAX, PAGE_BYTES_MAX};
use escapement_store::runs::{
    BatchOutcome, ClientRequest, Content, Definition, DefinitionChange, DefinitionKind, DefinitionOutcome,
    DefinitionPage, DefinitionPut, DefinitionWrite, ExpectedVersion, Listing, RunBatch, RunConflict,
    RunRemoved, Scope,
};

pub(super) fn put(name: &str, at: i64) -> DefinitionPut {
    DefinitionPut {
        namespace: Namespace::default(),
        owner: Some("owner".to_owned()),
        priority: 5,
        at,
        record: format!("{name} at {at}").into_bytes().into(),
        contents: Vec::new(),
        pinned: Vec::new(),
    }
}

pub(super) fn write(name: &str, expected: ExpectedVersion, put: DefinitionPut) -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: name.to_owned(),
        expected,
        change: DefinitionChange::Put(put),
    }
}

pub(super) fn delete(name: &str, expected: ExpectedVersion) -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: name.to_owned(),
        expected,
        change: DefinitionChange::Delete,
    }
}

pub(super) fn define(subject: &mut dyn ReopenableRuns, write: &DefinitionWrite) -> DefinitionOutcome {
    subject.store().define(write).expect("a healthy store writes")
}

fn plan(subject: &mut dyn ReopenableRuns, name: &str) -> Option<Definition> {
    let found = reader(subject).definition(DefinitionKind::SavedPlan, name);
    found.expect("a healthy store reads")
}

pub(super) const DONE: fn(u64) -> DefinitionOutcome = |version| DefinitionOutcome::Done { version };

pub(super) fn a_definition_changes_version_by_version(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    let new = write("plan", ExpectedVersion::New, put("plan", 10));
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::Is(1), put("plan", 10))),
        DefinitionOutcome::NotFound
    );
    assert_eq!(define(subject, &new), DONE(1));
    assert_eq!(
        define(subject, &new),
        DefinitionOutcome::OtherVersion { version: 1 }
    );
    let mut changed = put("plan", 20);
    (changed.owner, changed.priority) = (None, -3);
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::Is(1), changed.clone())),
        DONE(2)
    );
    let stale = write("plan", ExpectedVersion::Is(1), put("plan", 30));
    assert_eq!(
        define(subject, &stale),
        DefinitionOutcome::OtherVersion { version: 2 }
    );
    let expected = Definition {
        namespace: Namespace::default(),
        number: 1,
        kind: DefinitionKind::SavedPlan,
        name: "plan".to_owned(),
        owner: None,
        priority: -3,
        created_at: 10,
        updated_at: 20,
        version: 2,
        record: changed.record,
    };
    subject.reopen();
    assert_eq!(plan(subject, "plan"), Some(expected));
    let other_kind = reader(subject).definition(DefinitionKind::ActionProfile, "plan");
    assert_eq!(
        other_kind.expect("reads"),
        None,
        "a name is unique in its kind only"
    );

    assert_eq!(
        define(subject, &delete("plan", ExpectedVersion::Is(1))),
        DefinitionOutcome::OtherVersion { version: 2 }
    );
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::Any, put("plan", 40))),
        DONE(3)
    );
    assert_eq!(define(subject, &delete("plan", ExpectedVersion::Is(3))), DONE(3));
    assert_eq!(
        define(subject, &delete("plan", ExpectedVersion::Any)),
        DefinitionOutcome::NotFound
    );
    subject.reopen();
    assert_eq!(plan(subject, "plan"), None);
    assert_eq!(define(subject, &new), DONE(1));
}

pub(super) fn definitions_are_listed_by_owner_and_in_order(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    for n in 0..30_i64 {
        let mut put = put("plan", 100 + n % 4);
        put.owner = (n % 3 > 0).then(|| format!("owner {}", n % 3));
        put.priority = (n % 5) as i32;
        let kind = DefinitionKind::ALL[usize::from(n % 7 == 0)];
        let write = DefinitionWrite {
            kind,
            ..write(&format!("{n}"), ExpectedVersion::New, put)
        };
        assert_eq!(define(subject, &write), DONE(1));
    }
    let reader = reader(subject);
    for kind in DefinitionKind::ALL {
        for owner in [None, Some("owner 1"), Some("owner 2"), Some("nobody")] {
            let all = reader
                .definitions(kind, Scope::each(owner, None).as_deref(), None, 100)
                .expect("reads");
            assert_eq!(all.next(), None);
            let all = all.definitions;
            assert!(all.is_sorted_by(|one, next| one.key() > next.key()));
            let is_shown = |n: &i64| {
                let its_kind = DefinitionKind::ALL[usize::from(n % 7 == 0)];
                let its_owner = (n % 3 > 0).then(|| format!("owner {}", n % 3));
                its_kind == kind && owner.is_none_or(|owner| its_owner.as_deref() == Some(owner))
            };
            assert_eq!(
                all.len(),
                (0..30).filter(is_shown).count(),
                "{kind:?} of {owner:?}"
            );
            let scopes = Scope::each(owner, None);
            let scopes = scopes.as_deref();
            let count = reader.count(Listing::Definitions { kind, scopes });
            assert_eq!(count.expect("reads"), exactly(all.len()), "{kind:?} of {owner:?}");
            for limit in [1, 4] {
                let read = |before| {
                    reader
                        .definitions(kind, Scope::each(owner, None).as_deref(), before, limit)
                        .expect("reads")
                };
                let pages = paged(read, DefinitionPage::next);
                assert!(pages.iter().all(|page| page.len() <= limit));
                assert_eq!(pages.concat(), all);
            }
        }
    }
}

/// Returns all pages, each read from where the one before says that it goes on.
fn paged<T>(
    read: impl Fn(Option<T>) -> DefinitionPage,
    next: impl Fn(&DefinitionPage) -> Option<T>,
) -> Vec<Vec<Definition>> {
    let (mut pages, mut from) = (Vec::new(), None);
    loop {
        let page = read(from);
        from = next(&page);
        pages.push(page.definitions);
        if from.is_none() {
            return pages;
        }
    }
}

fn name_behind(page: &DefinitionPage) -> Option<String> {
    let last = page.definitions.last().filter(|_| page.has_more);
    last.map(|last| last.name.clone())
}

pub(super) fn definitions_are_listed_by_name(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    for n in 0..20_i64 {
        let kind = DefinitionKind::ALL[usize::from(n % 4 == 0)];
        let write = DefinitionWrite {
            kind,
            ..write(&format!("{}", n * 7 % 20), ExpectedVersion::New, put("plan", n))
        };
        assert_eq!(define(subject, &write), DONE(1));
    }
    let reader = reader(subject);
    for kind in DefinitionKind::ALL {
        let all = reader.definitions(kind, None, None, 100).expect("reads");
        let mut all = all.definitions;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(reader.n_definitions(kind).expect("reads"), all.len());
        for limit in [1, 4, 100] {
            let read = |after: Option<String>| reader.definitions_by_name(kind, after.as_deref(), limit);
            let pages = paged(|after| read(after).expect("reads"), name_behind);
            assert!(pages.iter().all(|page| page.len() <= limit));
            assert_eq!(pages.concat(), all, "{kind:?}");
        }
    }
}

pub(super) fn a_page_of_definitions_is_bounded_in_bytes(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    let large = |n: usize| match n {
        // As large as one may be, small ones, and some in between.
        0 | 3 => DEFINITION_BYTES_MAX,
        4..8 => 10,
        _ => 700 << 10,
    };
    for n in 0..20 {
        let mut put = put("large", 100 + n as i64 / 3);
        put.record = vec![n as u8; large(n)].into();
        let write = write(&format!("{n:02}"), ExpectedVersion::New, put);
        assert_eq!(define(subject, &write), DONE(1));
    }
    let reader = reader(subject);
    let kind = DefinitionKind::SavedPlan;
    for limit in [1, 7, 100] {
        for owner in [None, Some("owner")] {
            let read = |before| {
                reader
                    .definitions(kind, Scope::each(owner, None).as_deref(), before, limit)
                    .expect("reads")
            };
            let pages = paged(read, DefinitionPage::next);
            let names = are_bounded(&pages, limit);
            let all: Vec<String> = (0..20).rev().map(|n| format!("{n:02}")).collect();
            assert_eq!(names, all);
        }
        let read = |after: Option<String>| reader.definitions_by_name(kind, after.as_deref(), limit);
        let pages = paged(|after| read(after).expect("reads"), name_behind);
        let names = are_bounded(&pages, limit);
        assert!(names.is_sorted() && names.len() == 20, "{names:?}");
    }
}

/// The names on pages that have as much as they may have, and no more.
fn are_bounded(pages: &[Vec<Definition>], limit: usize) -> Vec<&str> {
    let bytes = |page: &[Definition]| page.iter().map(|one| one.record.len()).sum::<usize>();
    for (page, next) in pages.iter().zip(&pages[1..]) {
        assert!(bytes(page) <= PAGE_BYTES_MAX, "{} bytes", bytes(page));
        let with_the_next = bytes(page) + bytes(&next[..1.min(next.len())]);
        assert!(
            page.len() == limit || with_the_next > PAGE_BYTES_MAX - 1_000,
            "it had room"
        );
    }
    let names = pages.iter().flatten().map(|one| one.name.as_str());
    names.collect()
}

pub(super) fn a_definition_keeps_what_it_refers_to(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    let is_there = |subject: &mut dyn ReopenableRuns, content: &Content| {
        let found = reader(subject).content(&content.digest()).expect("reads");
        found.is_some()
    };
    let (old, new, shared) = (content(1), content(2), content(3));
    let mut first = put("plan", 1);
    first.contents = vec![old.clone(), shared.clone()];
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::New, first)),
        DONE(1)
    );

    let sample = RunSample::new(1);
    let mut create = sample.create();
    create.pinned = vec![shared.digest()];
    commit(subject, [create]);

    let mut second = put("plan", 2);
    second.pinned = vec![new.digest()];
    let missing = write("plan", ExpectedVersion::Any, second.clone());
    let digest = new.digest();
    assert_eq!(
        define(subject, &missing),
        DefinitionOutcome::ContentMissing { digest }
    );
    assert!(is_there(subject, &old), "nothing was written");
    second.contents = vec![new.clone()];
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::Any, second)),
        DONE(2)
    );
    assert!(!is_there(subject, &old), "nothing refers to it any more");
    assert!(is_there(subject, &new) && is_there(subject, &shared));

    // A batch leaves out what is gone, and is written.
    let mut without = put("plan", 2);
    without.pinned = vec![old.digest(), new.digest()];
    let mut batch = RunBatch::new();
    batch.define(write("other", ExpectedVersion::Any, without));
    assert_eq!(
        subject.store().commit(&batch).expect("commits"),
        BatchOutcome::Done
    );
    assert!(!is_there(subject, &old) && is_there(subject, &new));
    assert_eq!(define(subject, &delete("other", ExpectedVersion::Any)), DONE(1));

    // What a run releases stays as long as a definition refers to it.
    let mut third = put("plan", 3);
    third.pinned = vec![new.digest(), shared.digest()];
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::Any, third)),
        DONE(3)
    );
    commit(subject, [sample.end(2)]);
    let removed = subject.store().remove_run(sample.run_id(), 9).expect("removes");
    assert_eq!(removed, RunRemoved::Done);
    assert!(is_there(subject, &shared));
    assert_eq!(define(subject, &delete("plan", ExpectedVersion::Any)), DONE(3));
    assert!(!is_there(subject, &shared) && !is_there(subject, &new));
}

pub(super) fn the_newest_run_of_a_plan_is_found(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    assert_eq!(reader(subject).newest_run_of("plan 1").expect("reads"), None);
    for seed in 1..=9 {
        commit(subject, [RunSample::new(seed).create()]);
        let found = reader(subject)
            .newest_run_of(&format!("plan {}", seed % 4))
            .expect("reads");
        assert_eq!(
            found.map(|run| run.run_id),
            Some(RunSample::new(seed).run_id()),
            "whatever its priority"
        );
    }
    let found = reader(subject).newest_run_of("plan 2").expect("reads");
    assert_eq!(found.map(|run| run.number), Some(6));
}

pub(super) fn a_request_is_answered_once(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    let request = |key: &str| ClientRequest {
        key: key.to_owned(),
        digest: [key.len() as u8; 32],
    };
    let (one, two) = (RunSample::new(1), RunSample::new(2));
    commit(subject, [one.create(), two.create()]);
    let asked = |sample: &RunSample, seq, keys: &[&str]| {
        let mut write = sample.append(seq, 1);
        write.requests = keys.iter().map(|key| request(key)).collect();
        write
    };
    let used = |key: &str| RunConflict::RequestUsed {
        run_id: one.run_id(),
        digest: request(key).digest,
    };
    assert_eq!(
        refused(subject, [asked(&one, 2, &["pause"]), asked(&two, 2, &["pause"])]),
        used("pause"),
        "writes of one batch see each other"
    );
    commit(
        subject,
        [asked(&one, 2, &["pause"]), asked(&one, 3, &["resume", "again"])],
    );
    subject.reopen();
    for key in ["pause", "resume", "again"] {
        let found = reader(subject).answered(key).expect("reads");
        assert_eq!(found, Some((one.run_id(), request(key).digest)));
        assert_eq!(refused(subject, [asked(&two, 2, &[key])]), used(key));
    }
    assert_eq!(reader(subject).answered("other").expect("reads"), None);
    let created = reader(subject).answered("request 1").expect("reads");
    assert_eq!(created, None, "that request has created the run");

    commit(subject, [one.end(4)]);
    let removed = subject.store().remove_run(one.run_id(), 9).expect("removes");
    assert_eq!(removed, RunRemoved::Done);
    assert_eq!(reader(subject).answered("pause").expect("reads"), None);
    commit(subject, [asked(&two, 2, &["pause"])]);
}
