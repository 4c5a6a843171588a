//! A policy as its author has it in mind, how it is written down, and small changes to it, right and wrong ones.

use crate::dice::Dice;
use escapement_access::StaticToken;
use std::fmt::Write as _;

pub(crate) const ROLES: [&str; 5] = ["viewer", "submitter", "worker", "operator", "admin"];
pub(crate) const NAMESPACES: [&str; 3] = ["default", "billing", "agents"];
const PATTERNS: [&str; 6] = ["*", "mail.*", "*.send", "mail.send", "m*l.*d", "chat"];
const IDS: [&str; 3] = ["w-*", "w-1", "*"];
const SPIFFE: [&str; 3] = [
    "spiffe://a.example/sa/w-*",
    "spiffe://a.example/*/w-1",
    "spiffe://b.example/sa/w-1",
];
const DNS: [&str; 3] = ["*.example", "w.*", "w-1.example"];

/// In whose name the holder acts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum User {
    Unsaid,
    Own,
    Named(String),
    Any,
}

/// What an entry gives.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) roles: Vec<String>,
    pub(crate) namespaces: Option<Vec<String>>,
    pub(crate) actions: Option<Vec<String>>,
    pub(crate) worker_ids: Option<Vec<String>>,
    pub(crate) payloads: bool,
    pub(crate) agent: bool,
    pub(crate) user: User,
}

#[derive(Clone, Debug)]
pub(crate) struct TokenEntry {
    pub(crate) name: String,
    /// Of its 256 bits.
    pub(crate) seed: u8,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) given: Given,
}

#[derive(Clone, Debug)]
pub(crate) struct CertificateEntry {
    /// True: `pattern` is of SPIFFE ids; false: of DNS names.
    pub(crate) is_spiffe: bool,
    pub(crate) pattern: String,
    pub(crate) given: Given,
}

#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) anonymous: Option<Given>,
    pub(crate) anonymous_reflection: bool,
    pub(crate) tokens: Vec<TokenEntry>,
    pub(crate) certificates: Vec<CertificateEntry>,
}

/// What was done to a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    EntryDropped,
    NamespacesWidened,
    RolesSwapped,
    HolderRenamed,
    ActionsNarrowed,
}

pub(crate) const CHANGES: [Change; 5] = [
    Change::EntryDropped,
    Change::NamespacesWidened,
    Change::RolesSwapped,
    Change::HolderRenamed,
    Change::ActionsNarrowed,
];

pub(crate) fn secret_of(seed: u8) -> StaticToken {
    StaticToken::from_random([seed; 32])
}

impl Given {
    fn random(dice: &mut Dice) -> Self {
        let patterns = |dice: &mut Dice, all: &[&str]| (!dice.once_in(3)).then(|| dice.some_of(all));
        let mut namespaces = (!dice.once_in(3)).then(|| dice.some_of(&NAMESPACES));
        if dice.once_in(5) {
            namespaces = Some(vec!["*".to_owned()]);
        }
        Self {
            roles: dice.some_of(&ROLES),
            namespaces,
            actions: patterns(dice, &PATTERNS),
            worker_ids: patterns(dice, &IDS),
            payloads: dice.once_in(2),
            agent: dice.once_in(3),
            user: match dice.below(5) {
                0 => User::Own,
                1 => User::Named(dice.one_of(&["anna", "ben"]).to_owned()),
                2 => User::Any,
                _ => User::Unsaid,
            },
        }
    }

    fn write(&self, text: &mut String) {
        let list = |names: &[String]| {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("[{}]", quoted.join(", "))
        };
        writeln!(text, "roles = {}", list(&self.roles)).unwrap();
        for (key, names) in [
            ("namespaces", &self.namespaces),
            ("actions", &self.actions),
            ("worker_ids", &self.worker_ids),
        ] {
            if let Some(names) = names {
                writeln!(text, "{key} = {}", list(names)).unwrap();
            }
        }
        for (key, is_set) in [("payloads", self.payloads), ("agent", self.agent)] {
            if is_set {
                writeln!(text, "{key} = true").unwrap();
            }
        }
        match &self.user {
            User::Unsaid => {}
            User::Own => writeln!(text, "user = true").unwrap(),
            User::Named(name) => writeln!(text, "user = \"{name}\"").unwrap(),
            User::Any => writeln!(text, "user = \"*\"").unwrap(),
        }
    }
}

impl Document {
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let names = ["anna", "ben", "planner", "fleet"];
        let tokens = names[..dice.below(5)].iter().zip(1..);
        let tokens = tokens.map(|(name, seed)| TokenEntry {
            name: (*name).to_owned(),
            seed,
            expires_ms: dice
                .once_in(3)
                .then(|| 1_000_000 * i64::try_from(1 + dice.below(3)).unwrap()),
            given: Given::random(dice),
        });
        let tokens = tokens.collect();
        let n_certificates = dice.below(7);
        let certificates = (0..n_certificates).map(|_| {
            let is_spiffe = dice.once_in(2);
            CertificateEntry {
                is_spiffe,
                pattern: dice.one_of(if is_spiffe { &SPIFFE } else { &DNS }).to_owned(),
                given: Given::random(dice),
            }
        });
        Self {
            certificates: certificates.collect(),
            tokens,
            anonymous: dice.once_in(2).then(|| Given::random(dice)),
            anonymous_reflection: !dice.once_in(3),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "version = 1\nanonymous_reflection = {}\n",
            self.anonymous_reflection
        );
        if let Some(given) = &self.anonymous {
            text.push_str("[anonymous]\n");
            given.write(&mut text);
        }
        for name in &NAMESPACES[1..] {
            writeln!(text, "[[namespace]]\nname = \"{name}\"").unwrap();
        }
        for entry in &self.tokens {
            let digest = secret_of(entry.seed).sha256();
            let digest = digest
                .iter()
                .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
            writeln!(
                text,
                "[[token]]\nname = \"{}\"\nsha256 = \"{digest}\"",
                entry.name
            )
            .unwrap();
            if let Some(expires_ms) = entry.expires_ms {
                let (minutes, seconds) = (expires_ms / 60_000, expires_ms / 1_000 % 60);
                writeln!(text, "expires = 1970-01-01T00:{minutes:02}:{seconds:02}Z").unwrap();
            }
            entry.given.write(&mut text);
        }
        for entry in &self.certificates {
            let key = if entry.is_spiffe { "spiffe" } else { "dns" };
            writeln!(text, "[[certificate]]\n{key} = \"{}\"", entry.pattern).unwrap();
            entry.given.write(&mut text);
        }
        text
    }

    /// Returns another document that holds; `None` if it has no entry to which that can be done.
    pub(crate) fn changed(&self, change: Change, dice: &mut Dice) -> Option<Self> {
        let mut other = self.clone();
        match change {
            Change::EntryDropped if other.tokens.is_empty() => {
                other.anonymous.take()?;
            }
            Change::EntryDropped => {
                other.tokens.remove(dice.below(other.tokens.len()));
            }
            Change::NamespacesWidened => {
                other.some_given(dice)?.namespaces = Some(vec!["*".to_owned()]);
            }
            Change::RolesSwapped => {
                let given = other.some_given(dice)?;
                let left_out = ROLES
                    .iter()
                    .filter(|role| !given.roles.iter().any(|has| has == *role));
                given.roles = left_out.map(|role| (*role).to_owned()).collect();
            }
            Change::HolderRenamed => {
                let n_tokens = other.tokens.len();
                (n_tokens > 0).then(|| other.tokens[dice.below(n_tokens)].name.push_str("-2"))?;
            }
            Change::ActionsNarrowed => {
                other.some_given(dice)?.actions = Some(vec!["chat".to_owned()]);
            }
        }
        Some(other)
    }

    fn some_given(&mut self, dice: &mut Dice) -> Option<&mut Given> {
        let of_tokens = self.tokens.iter_mut().map(|entry| &mut entry.given);
        let of_certificates = self.certificates.iter_mut().map(|entry| &mut entry.given);
        let mut all: Vec<&mut Given> = of_tokens
            .chain(of_certificates)
            .chain(&mut self.anonymous)
            .collect();
        (!all.is_empty()).then(|| all.swap_remove(dice.below(all.len())))
    }

    /// Returns a text that must be refused, and the path at which.
    pub(crate) fn broken(&self, dice: &mut Dice) -> (String, String) {
        let mut other = self.clone();
        let first = self.tokens.first();
        let at = other.tokens.len();
        other.tokens.push(TokenEntry {
            name: "broken".to_owned(),
            seed: 99,
            expires_ms: None,
            given: Given {
                roles: vec!["viewer".to_owned()],
                ..Given::random(dice)
            },
        });
        let entry = &mut other.tokens[at];
        let (given, path) = (&mut entry.given, format!("token[{at}]"));
        let written = |document: Self| document.text();
        match dice.below(8) {
            0 => {
                given.roles.push("king".to_owned());
                (written(other), format!("{path}.roles[1]"))
            }
            1 => {
                given.namespaces = Some(vec!["default".to_owned(), "nowhere".to_owned()]);
                (written(other), format!("{path}.namespaces[1]"))
            }
            2 => {
                given.actions = Some(vec!["a".to_owned(), String::new()]);
                (written(other), format!("{path}.actions[1]"))
            }
            3 => {
                given.worker_ids = Some(vec!["x".repeat(300)]);
                (written(other), format!("{path}.worker_ids[0]"))
            }
            4 if first.is_some() => {
                entry.name = first.unwrap().name.clone();
                (written(other), format!("{path}.name"))
            }
            5 if first.is_some() => {
                entry.seed = first.unwrap().seed;
                (written(other), format!("{path}.sha256"))
            }
            6 => {
                let text = written(other).replacen("name = \"broken\"", "name = \"broken\"\ncolour = 1", 1);
                (text, format!("{path}.colour"))
            }
            _ => {
                let text = written(other).replacen("version = 1", "version = 1\nsurprise = 1", 1);
                (text, "surprise".to_owned())
            }
        }
    }
}
