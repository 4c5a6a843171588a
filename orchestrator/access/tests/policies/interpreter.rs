//! What a document gives, said a second time: from the page `deploy/AUTHORIZATION.md` and its table alone, as plainly as possible.

use crate::document::{Document, Given, User};
use std::collections::BTreeMap;

/// The columns of the table that are roles, in its order.
const COLUMNS: [&str; 7] = [
    "anonymous",
    "viewer",
    "submitter",
    "worker",
    "attempt",
    "operator",
    "admin",
];

/// The cells of each call, by its path and column.
pub(crate) struct Table(BTreeMap<String, BTreeMap<&'static str, String>>);

impl Table {
    pub(crate) fn of_the_page() -> Self {
        let page = include_str!("../../../../deploy/AUTHORIZATION.md");
        let (_, table) = page.split_once("<!-- table -->").unwrap();
        let (table, _) = table.split_once("<!-- end of table -->").unwrap();
        let mut rows = BTreeMap::new();
        for row in table.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let (service, methods) = cells[0].split_once(": ").unwrap();
            let by_column = COLUMNS
                .into_iter()
                .zip(cells[1..].iter().map(|cell| (*cell).to_owned()));
            let by_column: BTreeMap<_, _> = by_column.collect();
            for method in methods.split(", ") {
                let path = format!("/{}/{}", service.trim_matches('`'), method.trim_matches('`'));
                rows.insert(path, by_column.clone());
            }
        }
        assert!(rows.len() > 80, "the page has a row for every call");
        Self(rows)
    }

    pub(crate) fn calls(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn cell(&self, call: &str, column: &str) -> &str {
        &self.0[call][column]
    }
}

/// Who shows something, and what the document says of that.
pub(crate) struct Holder<'d> {
    pub(crate) name: String,
    pub(crate) is_anonymous: bool,
    /// What it may beyond that depends on an execution, which is for the engine to say.
    pub(crate) is_attempt: bool,
    pub(crate) entries: Vec<&'d Given>,
}

/// What a caller shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'a> {
    Nothing,
    Token(u8),
    SpiffeId(&'a str),
    DnsName(&'a str),
    /// The token of an attempt that this process made.
    Attempt,
    /// A text that reads as one, and that it never made.
    MadeUpAttempt,
}

impl Document {
    /// Who that is at this time.
    pub(crate) fn holder(&self, shown: Shown<'_>, now_ms: i64) -> Result<Holder<'_>, &'static str> {
        let of_certificate = |name: &str, is_spiffe: bool| {
            let separator = if is_spiffe { '/' } else { '.' };
            let entries = self.certificates.iter();
            let entries = entries.filter(|entry| {
                entry.is_spiffe == is_spiffe && matches(&entry.pattern, name, Some(separator))
            });
            Ok(Holder {
                name: name.to_owned(),
                is_anonymous: false,
                is_attempt: false,
                entries: entries.map(|entry| &entry.given).collect(),
            })
        };
        match shown {
            Shown::Nothing => Ok(Holder {
                name: "anonymous".to_owned(),
                is_anonymous: true,
                is_attempt: false,
                entries: self.anonymous.iter().collect(),
            }),
            Shown::MadeUpAttempt => Err("CREDENTIALS_INVALID"),
            Shown::Attempt => Ok(Holder {
                name: "attempt".to_owned(),
                is_anonymous: false,
                is_attempt: true,
                entries: Vec::new(),
            }),
            Shown::SpiffeId(id) => of_certificate(id, true),
            Shown::DnsName(name) => of_certificate(name, false),
            Shown::Token(seed) => match self.tokens.iter().find(|entry| entry.seed == seed) {
                None => Err("CREDENTIALS_INVALID"),
                Some(entry) if entry.expires_ms.is_some_and(|end_ms| end_ms <= now_ms) => {
                    Err("CREDENTIALS_EXPIRED")
                }
                Some(entry) => Ok(Holder {
                    name: entry.name.clone(),
                    is_anonymous: false,
                    is_attempt: false,
                    entries: vec![&entry.given],
                }),
            },
        }
    }

    /// Whether the holder may make the call at all.
    pub(crate) fn may_call(&self, table: &Table, who: &Holder<'_>, call: &str) -> Result<(), &'static str> {
        let of_strangers = table.cell(call, "anonymous") != "-";
        if who.is_anonymous && !self.anonymous_reflection && call.contains("ServerReflectionInfo") {
            return Err("CREDENTIALS_MISSING");
        }
        if who.is_attempt {
            return match table.cell(call, "attempt") {
                "-" => Err("ROLE_MISSING"),
                _ => Ok(()),
            };
        }
        let some = who.entries.iter().any(|entry| {
            let mut cells = entry.roles.iter().map(|role| table.cell(call, role));
            cells.any(|cell| cell != "-" && (cell != "p" || entry.payloads))
        });
        match (of_strangers || some, who.is_anonymous) {
            (true, _) => Ok(()),
            (false, true) => Err("CREDENTIALS_MISSING"),
            (false, false) => Err("ROLE_MISSING"),
        }
    }
}

impl Given {
    fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|has| has == role)
    }

    fn is_for(&self, namespace: &str) -> bool {
        match &self.namespaces {
            None => namespace == "default",
            Some(names) => names.iter().any(|name| name == "*" || name == namespace),
        }
    }

    /// Whether it has the role there.
    fn holds(&self, role: &str, namespace: &str) -> bool {
        self.has(role) && (!["viewer", "submitter"].contains(&role) || self.is_for(namespace))
    }

    fn reads(&self, namespace: &str) -> bool {
        ["viewer", "submitter", "operator", "admin"]
            .into_iter()
            .any(|role| self.holds(role, namespace))
    }
}

impl Holder<'_> {
    /// Whether the call may be about something there.
    pub(crate) fn may_call_there(&self, table: &Table, call: &str, namespace: &str) -> bool {
        self.entries.iter().any(|entry| {
            entry.roles.iter().any(|role| match table.cell(call, role) {
                "-" => false,
                "p" => entry.payloads,
                _ => entry.holds(role, namespace),
            })
        })
    }

    pub(crate) fn sees(&self, namespace: &str) -> bool {
        self.entries.iter().any(|entry| entry.reads(namespace))
    }

    /// Whether it finds what is that user's there.
    pub(crate) fn finds(&self, namespace: &str, owner: &str) -> bool {
        self.entries.iter().any(|entry| {
            let is_found = match &entry.user {
                _ if entry.has("operator") || entry.has("admin") => true,
                User::Unsaid | User::Any => true,
                User::Own => owner == self.name,
                User::Named(name) => owner == name,
            };
            entry.reads(namespace) && is_found
        })
    }

    /// Whether there is nothing that it does not find, in namespaces that nobody has named yet, too.
    pub(crate) fn finds_everything(&self) -> bool {
        self.entries.iter().any(|entry| {
            let is_everywhere = entry.namespaces.iter().flatten().any(|name| name == "*");
            let reads = is_everywhere && (entry.has("viewer") || entry.has("submitter"));
            let of_everybody = [User::Unsaid, User::Any].contains(&entry.user);
            entry.has("operator") || entry.has("admin") || (reads && of_everybody)
        })
    }

    pub(crate) fn submits(&self, namespace: &str, action: &str) -> bool {
        self.entries.iter().any(|entry| {
            entry.has("admin") || (entry.holds("submitter", namespace) && one_of(&entry.actions, action))
        })
    }

    pub(crate) fn offers(&self, action: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.has("worker") && one_of(&entry.actions, action))
    }

    pub(crate) fn may_be_worker(&self, id: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.has("worker") && one_of(&entry.worker_ids, id))
    }

    pub(crate) fn is_agent(&self) -> bool {
        self.entries.iter().any(|entry| entry.agent)
    }

    /// Whether the call may make something there in the name of that user, or of nobody in particular.
    pub(crate) fn acts_for(&self, table: &Table, call: &str, namespace: &str, named: &str) -> bool {
        let mut entries = self.entries.iter().filter(|entry| {
            entry.roles.iter().any(|role| match table.cell(call, role) {
                "-" => false,
                "p" => entry.payloads,
                _ => entry.holds(role, namespace),
            })
        });
        named.is_empty()
            || self.is_anonymous
            || named == self.name
            || entries.any(|entry| {
                entry.has("admin") || entry.user == User::Any || entry.user == User::Named(named.to_owned())
            })
    }

    /// Whether an entry that is for the namespace says that the holder is that user there.
    pub(crate) fn is_also(&self, namespace: &str, user: &str) -> bool {
        let mut entries = self.entries.iter().filter(|entry| entry.reads(namespace));
        entries.any(|entry| entry.user == User::Named(user.to_owned()))
    }
}

/// Left out, it is every name.
fn one_of(patterns: &Option<Vec<String>>, name: &str) -> bool {
    match patterns {
        None => true,
        Some(patterns) => patterns.iter().any(|pattern| matches(pattern, name, None)),
    }
}

/// Tries everything that a star can stand for.
fn matches(pattern: &str, name: &str, separator: Option<char>) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), first) => {
            matches(&pattern[1..], name, separator)
                || first.is_some_and(|first| {
                    Some(first) != separator && matches(pattern, &name[first.len_utf8()..], separator)
                })
        }
        (Some(one), Some(other)) if one == other => {
            matches(&pattern[one.len_utf8()..], &name[other.len_utf8()..], separator)
        }
        _ => false,
    }
}
