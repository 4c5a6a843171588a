//! The rules of plain English, each with what to write instead.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::texts::{Channel, Text, texts};
use crate::source::TextFile;

/// One place that breaks a rule.
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    /// Id of the rule.
    pub(super) rule: &'static str,
    /// The words, and what to write instead.
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            what,
        } = self;
        write!(f, "{path}:{line}: {rule}: {what}")
    }
}

/// One rule: its id, the check of one text, and what to write instead.
struct Rule(&'static str, fn(&Text) -> Option<String>, &'static str);

const RULES: [Rule; 9] = [
    Rule(
        "E1",
        opener,
        "begin with the noun: Number of, Reason, Time at which, Owner",
    ),
    Rule(
        "E2",
        verbless,
        "begin the comment of a function with a verb: Returns, Creates, Reads",
    ),
    Rule("E3", phrase, "use the word that an engineer of the field uses"),
    Rule("E4", long, "make it two sentences"),
    Rule("E5", absence, "say what the module does; absences are for crates"),
    Rule(
        "E6",
        log,
        "short event in lower case, at most 8 words, no article; values in fields",
    ),
    Rule(
        "E7",
        error,
        "errors are lower case without a full stop: path: problem; remedy",
    ),
    Rule("E8", test_name, "subject_verb_object in at most 70 characters"),
    Rule("E11", term, "the field has another word for it"),
];

/// Every finding in the texts of a file.
pub(super) fn findings(file: &TextFile) -> Vec<Finding> {
    // These pages say what not to write.
    if file.path.starts_with("tests/tidy/english") || file.path.ends_with("tests/tidy/english.rs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for text in texts(file) {
        for Rule(rule, check, instead) in &RULES {
            found.extend(check(&text).map(|words| Finding {
                path: file.path.display().to_string(),
                line: text.line,
                rule,
                what: format!("`{words}`: {instead}"),
            }));
        }
    }
    found
}

/// A regular expression that is compiled once.
macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("is one"));
        &*PATTERN
    }};
}

fn first(pattern: &Regex, text: &str) -> Option<String> {
    pattern.find(text).map(|found| found.as_str().to_owned())
}

fn opener(text: &Text) -> Option<String> {
    let words = pattern!(
        r"^(What|Who|Whose|Whom|Which|Where|When|Why|How|Whether|Those|Such|Of|By|From|As|It|Its|One|Nothing|There)\b"
    );
    text.is_doc.then(|| first(words, &text.words)).flatten()
}

fn verbless(text: &Text) -> Option<String> {
    // A verb in the third person ends in `s`; these words do, too.
    let others =
        pattern!(r"^(This|Its|Is|Has|As|Names|Bytes|Seconds|Milliseconds|Us|Yes|Thus|Always|Was|Does)$");
    let word = text.words.split([' ', ',', ':', '.']).next().unwrap_or_default();
    let is_verb = word.ends_with('s') && !others.is_match(word);
    (text.is_of_function && !is_verb).then(|| word.to_owned())
}

fn phrase(text: &Text) -> Option<String> {
    let phrases = pattern!(concat!(
        r"(?i)\bshall\b",
        r"|\b(who|what|which|when|where)ever\b|\bhowever (many|long|often|far|large|old|soon)\b",
        r"|\b(some|no|every|any)body\b",
        r"|\b(nothing of|nothing but|everything but|but for|all but)\b",
        r"|\b(comes?|came) of\b|\b(becomes?|became|become) of\b",
        r"|\b(told|tells?|telling)\b",
        r"|\bthe place of\b|\bbeliev(e|es|ed|ing)\b|\b(takes?|took|taken) up\b",
        r"|\bunder way\b|\bby (itself|themselves)\b|\bof its own accord\b",
        r"|\b(any|no) more\b|\bmeanwhile\b|\bat hand\b",
        r"|\b(goes|went|going|gone) on\b",
        r"|\b(a|the|each|last|next) looks?\b|\blooks? (through|whether)\b",
        r"|\bhas not \d+|\bis none\b",
        r"|\b(if|that|which) there (is|are|was|were)\b",
        r"|\bfigures?\b|\bbeside\b",
        r"|\blets? [a-z ]{0,20}\bgo\b|\bgiv(es?|en) (way|up)\b",
    ));
    // Words after which, or before which, the same words mean what everybody means by them.
    let stands = pattern!(r"(?i)\b(stands?|stood)\b( for)?");
    let at_a_time = pattern!(r"(?i)(\bone )?\bat a time\b");
    let is_no = pattern!(r"(?i)\b(is|are) no( longer| more| other| matter)?\b");
    let behind = pattern!(r"(?i)\bbehind\b( (a|the) (proxy|firewall))?");
    let alone = |pattern: &Regex| {
        let mut found = pattern.captures_iter(&text.words);
        let bare = found.find(|captures| captures.get(1).is_none());
        bare.map(|captures| captures[0].to_owned())
    };
    let with_exception = || {
        let is_no_more = is_no
            .captures_iter(&text.words)
            .find(|captures| captures.get(2).is_none());
        alone(stands)
            .or_else(|| alone(at_a_time))
            .or_else(|| alone(behind))
            .or_else(|| is_no_more.map(|captures| captures[0].to_owned()))
    };
    first(phrases, &text.words).or_else(with_exception)
}

/// Words of our own, each with the word that the field has for it.
const TERMS: [(&str, &str); 16] = [
    (
        r"\bplaces?\b",
        "slot (capacity), position (order) or path (document)",
    ),
    (r"\brooms?\b", "capacity, permit or budget"),
    (r"\blooks?\b", "check, read, poll or scrub"),
    (r"\b(laws?|rulings?)\b", "rules, specification"),
    (r"\bendings?\b", "outcome, terminal event"),
    (r"\bhand(s|ed|ing)? in\b", "submit"),
    (r"\bhand(s|ed|ing)? out\b|\bhand-outs?\b", "assign"),
    (r"\b(tally|tallies|census)\b", "counters, observer"),
    (r"\bpatience\b", "timeout"),
    (r"\bdeaf\b", "half-open"),
    (r"\b(newcomers?|strangers?)\b", "unauthenticated connection"),
    (r"\bverbs?\b", "command"),
    (r"\b(clockwork|course|pace)\b", "scheduler, control, batching"),
    (r"\bspell(s|ed|ing|ings)?\b", "encode, write; suggestion"),
    (r"\bdraws?\b", "generate, for an id"),
    (r"\bwanted\b", "requested, needed; filter"),
];

fn term(text: &Text) -> Option<String> {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        let compiled = TERMS.iter().map(|(word, _)| Regex::new(word).expect("is one"));
        compiled.collect()
    });
    if !matches!(text.channel, Channel::Comment | Channel::Page) {
        return None;
    }
    PATTERNS.iter().zip(&TERMS).find_map(|(pattern, (_, instead))| {
        let word = pattern.find(&text.words)?.as_str();
        Some(format!("{word}: {instead}"))
    })
}

fn long(text: &Text) -> Option<String> {
    let words_max = match text.channel {
        Channel::Comment => 25,
        Channel::Page => 30,
        _ => return None,
    };
    let relative = pattern!(r"(?i)\b(that|which|who|whose|what|where)\b");
    let mut sentences = pattern!(r"[.!?;](\s|$)| \| ").split(&text.words);
    let sentence = sentences.find(|sentence| {
        sentence.split_whitespace().count() > words_max || relative.find_iter(sentence).count() > 2
    })?;
    Some(sentence.trim().chars().take(40).collect())
}

fn absence(text: &Text) -> Option<String> {
    let absent = pattern!(
        r"\b(Decides|Judges|Asks|Knows|Counts|Holds|Does|Opens|Reads|Writes|Keeps|Makes|Has) (nothing|none|nobody|no)\b"
    );
    text.is_header.then(|| first(absent, &text.words)).flatten()
}

fn log(text: &Text) -> Option<String> {
    if text.channel != Channel::Log {
        return None;
    }
    let shape = pattern!(r"^[a-z][A-Za-z0-9 _/-]*$");
    let article = pattern!(r"\b(a|an|the)\b");
    let is_short = text.words.split(' ').count() <= 8;
    let is_event = shape.is_match(&text.words) && !article.is_match(&text.words) && is_short;
    (!is_event).then(|| text.words.clone())
}

fn error(text: &Text) -> Option<String> {
    if text.channel != Channel::Literal {
        return None;
    }
    first(pattern!(r"^[A-Z][^.]*\.$|\bis none\b|\bhas not \d"), &text.words)
}

fn test_name(text: &Text) -> Option<String> {
    if text.channel != Channel::TestName {
        return None;
    }
    let opener = pattern!(
        r"^(what|who|whose|whoever|whatever|where|how|why|which|those|such|of|as|by|from|with|in|on|at|to|nobody|somebody|nothing)\b"
    );
    let is_long = text.words.chars().count() > 70;
    (is_long || opener.is_match(&text.words)).then(|| text.words.replace(' ', "_"))
}

#[test]
fn each_rule_finds_what_it_forbids_and_nothing_else() {
    let of = |source: &str| {
        let file = TextFile {
            path: "shared/a/src/a.rs".into(),
            text: source.to_owned(),
        };
        let rules: Vec<_> = findings(&file).iter().map(|finding| finding.rule).collect();
        rules
    };
    assert_eq!(of("/// What it has.\nstruct A;\n"), ["E1"]);
    assert_eq!(of("/// The sum.\nfn f() {}\n"), ["E2"]);
    assert_eq!(of("/// Returns the sum.\npub const fn f() {}\n"), [""; 0]);
    assert_eq!(of("// It stands there.\n// A slot at a time.\n"), ["E3"]);
    assert_eq!(
        of("// It stands for one at a time, and is no longer behind a proxy.\n"),
        [""; 0]
    );
    assert_eq!(of(&format!("// {}.\n", ["word"; 26].join(" "))), ["E4"]);
    assert_eq!(of("//! Counts steps. Decides nothing.\n"), ["E5"]);
    assert_eq!(
        of("fn f() { warn!(why, \"the log has: a line\"); info!(n, \"log line written\"); }\n"),
        ["E6"]
    );
    assert_eq!(of("const A: &str = \"A name is missing.\";\n"), ["E7"]);
    assert_eq!(of("// A slot for each stranger.\n"), ["E11"]);
    assert_eq!(of("#[test]\nfn what_is_done_is_done() {}\n"), ["E8"]);
}
