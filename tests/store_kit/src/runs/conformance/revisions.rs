//! Stories about revisions: who finds a document by the digest of its plan. Knows no plan.

use escapement_model::Namespace;

use super::definitions::{DONE, define, delete, put, write};
use super::sample::revision;
use super::{Make, ReopenableRuns, RunSample, commit, reader};
use escapement_store::runs::{Content, ExpectedVersion, Scope, StoredRevision};

/// Returns a revision as it is found within these scopes, by each of the two ways to it.
fn found_within(
    subject: &mut dyn ReopenableRuns,
    digest: &[u8; 32],
    scopes: &[Scope],
) -> Option<StoredRevision> {
    let reader = reader(subject);
    let found = reader.revision(digest, scopes).expect("reads");
    let content = reader.content_of_revision(digest, scopes).expect("reads");
    assert_eq!(content, found.as_ref().map(|found| found.content));
    found
}

/// Returns the document of a revision as it is seen from these namespaces of these owners.
fn seen_from(
    subject: &mut dyn ReopenableRuns,
    digest: &[u8; 32],
    scopes: &[(&str, Option<&str>)],
) -> Option<bytes::Bytes> {
    let scope = |(name, owner): &(&str, Option<&str>)| Scope {
        namespace: Namespace::parse(name),
        owner: owner.map(str::to_owned),
    };
    let these: Vec<Scope> = scopes.iter().map(scope).collect();
    found_within(subject, digest, &these).map(|found| found.document)
}

pub(super) fn a_revision_is_found_while_it_is_referred_to(make: Make<'_>) {
    let mut subject = make();
    let subject = &mut *subject;
    let digest = [7; 32];
    let found = |subject: &mut dyn ReopenableRuns| found_within(subject, &digest, &[Scope::EVERYTHING]);
    assert_eq!(found(subject), None);
    let (one, other) = (revision(1, digest), revision(2, digest));
    let sample = RunSample::new(1);
    let mut create = sample.create();
    // The same bytes may have come as anything else before.
    create.contents = vec![Content::new(one.bytes().clone()), one.clone()];
    commit(subject, [create]);
    let mut put = put("plan", 1);
    put.contents = vec![other.clone()];
    assert_eq!(
        define(subject, &write("plan", ExpectedVersion::New, put)),
        DONE(1)
    );
    assert_eq!(sample.created.namespace.as_str(), "billing");
    let owner = sample.created.owner.as_deref();
    for (scopes, expected) in [
        (&[("billing", None)][..], Some(&one)),
        (&[("billing", owner)], Some(&one)),
        (&[("billing", Some("nobody"))], None),
        (&[("default", None)], Some(&other)),
        (&[("default", Some("nobody"))], None),
        (&[("default", owner), ("agents", None)], None),
        (&[("billing", Some("nobody")), ("default", None)], Some(&other)),
        (&[("", owner)], Some(&one)),
        (&[("agents", None)], None),
        (&[], None),
    ] {
        assert_eq!(
            seen_from(subject, &digest, scopes).as_ref(),
            expected.map(Content::bytes),
            "{scopes:?}"
        );
    }
    let revision = found(subject).expect("a run refers to it");
    assert_eq!(
        (revision.content, &revision.document),
        (one.digest(), one.bytes()),
        "the first of two documents"
    );
    let mut release = sample.append(2, 1);
    release.released = vec![one.digest()];
    commit(subject, [release]);
    subject.reopen();
    let revision = found(subject).expect("a saved plan refers to it");
    assert_eq!(revision.document, *other.bytes());
    assert_eq!(define(subject, &delete("plan", ExpectedVersion::Any)), DONE(1));
    assert_eq!(found(subject), None);
}
