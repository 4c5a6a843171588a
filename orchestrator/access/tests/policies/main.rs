//! Random policies and random changes to them, and for each random questions: what is granted is what a second interpreter grants, which
//! shares no code with this crate; and a text with one thing wrong is refused at that place. A failure names the seed.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod dice;
mod document;
mod interpreter;

use dice::Dice;
use document::{CHANGES, Change, Document, NAMESPACES, secret_of};
use escapement_access::{Access, CertificateIdentity, Credentials, Denial, Policy, Principal, row};
use escapement_model::{AttemptSeal, Namespace, bearer};
use interpreter::{Holder, Shown, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

const N_POLICIES: u64 = 1_500;
const N_QUESTIONS: usize = 12;
const ACTIONS: [&str; 5] = ["mail.send", "mail.read", "chat", "sms.send", "ml.d"];
const USERS: [&str; 4] = ["anna", "ben", "planner-2", ""];

/// A question, with everything that it may be about.
#[derive(Clone, Debug)]
struct Question<'a> {
    shown: Shown<'a>,
    now_ms: i64,
    call: &'a str,
    namespace: &'a str,
    action: &'a str,
    worker_id: &'a str,
    user: &'a str,
}

/// Everything that is asked at a time; what cannot be asked, since it is nobody, is only refused.
type Answer = Result<Vec<(&'static str, bool)>, &'static str>;

impl<'a> Question<'a> {
    fn random(dice: &mut Dice, calls: &[&'a str]) -> Self {
        Self {
            shown: match dice.below(10) {
                0 => Shown::Nothing,
                8 => Shown::Attempt,
                9 => Shown::MadeUpAttempt,
                1 => {
                    Shown::SpiffeId(dice.one_of(&["spiffe://a.example/sa/w-1", "spiffe://b.example/sa/w-1"]))
                }
                2 => Shown::SpiffeId("spiffe://a.example/sa/w-1/x"),
                3 => Shown::DnsName(dice.one_of(&["w-1.example", "w.example", "x.w.example"])),
                _ => Shown::Token(u8::try_from(1 + dice.below(5)).unwrap()),
            },
            now_ms: 1_000_000 * i64::try_from(dice.below(4)).unwrap() + 1,
            call: dice.one_of(calls),
            namespace: dice.one_of(&NAMESPACES),
            action: dice.one_of(&ACTIONS),
            worker_id: dice.one_of(&["w-1", "w-22", "other"]),
            user: dice.one_of(&USERS),
        }
    }

    /// As the crate answers it.
    fn answer(&self, access: &Access) -> Answer {
        let reason = |denial: Denial| denial.reason();
        let principal = self.principal(access).map_err(reason)?;
        access.permit(&principal, self.call).map_err(reason)?;
        let namespace = Namespace::parse(self.namespace).unwrap();
        let row = row(self.call);
        Ok(vec![
            (
                "may_call_there",
                principal.check_within(row.as_ref(), &namespace).is_ok(),
            ),
            ("sees", principal.sees(&namespace)),
            ("names the namespace", principal.namespace(self.namespace).is_ok()),
            ("finds", principal.sees_of(&namespace, Some(self.user))),
            ("submits", principal.may_submit(&namespace, self.action)),
            ("offers", principal.may_offer(self.action)),
            ("may_be_worker", principal.may_be_worker(self.worker_id)),
            ("is_agent", principal.is_agent()),
            (
                "acts_for",
                principal
                    .user(row.as_ref(), &namespace, "user_id", self.user)
                    .is_ok(),
            ),
            (
                "is_also",
                principal.named_users(&namespace).any(|name| name == self.user),
            ),
            ("lists", {
                let mut scopes = principal.scopes().into_iter();
                scopes.any(|(of, user)| {
                    of.is_none_or(|of| *of == namespace) && user.is_none_or(|user| user == self.user)
                })
            }),
            (
                "lists everything",
                principal.scopes().contains(&(None, None)) && principal.finds_all(),
            ),
            ("is called", principal.verified_name() == Some("anna")),
        ])
    }

    fn principal(&self, access: &Access) -> Result<Arc<Principal>, Denial> {
        let certificate = |spiffe_id: Option<&str>, dns_name: Option<&str>| CertificateIdentity {
            spiffe_id: spiffe_id.map(str::to_owned),
            dns_names: dns_name.into_iter().map(str::to_owned).collect(),
            not_after_ms: i64::MAX,
            fingerprint: [0; 32],
        };
        let (authorization, certificate) = match self.shown {
            Shown::Nothing => (None, None),
            Shown::Token(seed) => (Some(format!("Bearer {}", secret_of(seed).secret())), None),
            Shown::Attempt => (Some(attempt_of(SEAL)), None),
            Shown::MadeUpAttempt => (Some(attempt_of([2; 32])), None),
            Shown::SpiffeId(id) => (None, Some(certificate(Some(id), None))),
            Shown::DnsName(name) => (None, Some(certificate(None, Some(name)))),
        };
        let attempts = AttemptSeal::new(SEAL);
        let shown = Credentials {
            authorization: authorization.as_ref().map(String::as_bytes),
            certificate: certificate.as_ref(),
            attempts: Some(&attempts),
        };
        access.authenticate(shown, self.now_ms)
    }

    /// As the second interpreter answers it.
    fn expected(&self, document: &Document, table: &Table) -> Answer {
        let who: Holder<'_> = document.holder(self.shown, self.now_ms)?;
        document.may_call(table, &who, self.call)?;
        Ok(vec![
            (
                "may_call_there",
                who.may_call_there(table, self.call, self.namespace),
            ),
            ("sees", who.sees(self.namespace)),
            ("names the namespace", who.sees(self.namespace)),
            ("finds", who.finds(self.namespace, self.user)),
            ("submits", who.submits(self.namespace, self.action)),
            ("offers", who.offers(self.action)),
            ("may_be_worker", who.may_be_worker(self.worker_id)),
            ("is_agent", who.is_agent()),
            (
                "acts_for",
                who.acts_for(table, self.call, self.namespace, self.user),
            ),
            ("is_also", who.is_also(self.namespace, self.user)),
            // A list has exactly what is found by its name.
            ("lists", who.finds(self.namespace, self.user)),
            ("lists everything", who.finds_everything()),
            ("is called", !who.is_anonymous && who.name == "anna"),
        ])
    }
}

/// What makes the tokens of attempts.
const SEAL: [u8; 32] = [1; 32];

fn attempt_of(key: [u8; 32]) -> String {
    format!("Bearer {}", bearer::of_attempt(AttemptSeal::new(key).token(1)))
}

fn access_of(document: &Document, seed: u64) -> Access {
    let text = document.text();
    let policy = Policy::parse(&text);
    Access::new(policy.unwrap_or_else(|violations| panic!("seed {seed}: {violations:?}\n{text}")))
}

#[test]
fn a_policy_and_each_change_of_it_grant_what_the_page_says() {
    let table = Table::of_the_page();
    let calls = table.calls();
    let mut n_granted = 0;
    let mut n_told: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..N_POLICIES {
        let mut dice = Dice::new(seed);
        let document = Document::random(&mut dice);
        let questions: Vec<_> = (0..N_QUESTIONS)
            .map(|_| Question::random(&mut dice, &calls))
            .collect();
        let ask = |document: &Document| -> Vec<Answer> {
            let access = access_of(document, seed);
            let answers = questions.iter().map(|question| {
                let answer = question.answer(&access);
                let expected = question.expected(document, &table);
                assert_eq!(answer, expected, "seed {seed}: {question:?}\n{}", document.text());
                answer
            });
            answers.collect()
        };
        let before = ask(&document);
        n_granted += before.iter().filter(|answer| answer.is_ok()).count();
        let change = CHANGES[dice.below(CHANGES.len())];
        if let Some(changed) = document.changed(change, &mut dice) {
            let is_told = ask(&changed) != before;
            *n_told.entry(format!("{change:?}")).or_default() += usize::from(is_told);
        }
    }
    // Answers of every kind came, and every kind of change was seen in some of them.
    let n_asked = usize::try_from(N_POLICIES).unwrap() * N_QUESTIONS;
    assert!(
        (n_asked / 20..n_asked).contains(&n_granted),
        "{n_granted} of {n_asked}"
    );
    eprintln!("{n_granted} of {n_asked} calls were let in; changes that were seen: {n_told:?}");
    let are_seen = |change: &Change| n_told.get(&format!("{change:?}")).is_some_and(|n| *n >= 10);
    assert!(CHANGES.iter().all(are_seen), "{n_told:?}");
}

#[test]
fn a_policy_with_one_thing_wrong_is_refused_at_that_place() {
    let mut paths = BTreeMap::<String, usize>::new();
    for seed in 0..N_POLICIES {
        let mut dice = Dice::new(seed);
        let (text, path) = Document::random(&mut dice).broken(&mut dice);
        let violations = Policy::parse(&text).expect_err(&text);
        let found: Vec<&str> = violations
            .iter()
            .map(|violation| violation.path.as_str())
            .collect();
        assert_eq!(found, [path.as_str()], "seed {seed}\n{text}");
        let kind = path.rsplit('.').next().unwrap();
        *paths.entry(kind.to_owned()).or_default() += 1;
    }
    assert_eq!(paths.len(), 8, "{paths:?}");
}
