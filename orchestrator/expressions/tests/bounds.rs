//! No expression panics, and none costs more than its bounds: the worst ones, and random ones.

mod bindings;

use bindings::bindings;
use escapement_expressions::{
    EXPRESSION_BYTES_MAX, NESTING_MAX, NODES_MAX, check, evaluate, evaluate_within,
};
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, WalkBudget};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn nested(open: &str, close: &str, n: usize) -> String {
    format!("{}true{}", open.repeat(n), close.repeat(n))
}

#[test]
fn what_is_too_long_too_deep_or_too_much_is_refused() {
    assert_eq!(
        check(&format!("true{}", " ".repeat(EXPRESSION_BYTES_MAX - 4))),
        Ok(())
    );
    let error = check(&format!("true{}", " ".repeat(EXPRESSION_BYTES_MAX - 3))).unwrap_err();
    assert!(error.contains("more than 4096 bytes"), "{error}");

    assert_eq!(check(&nested("(", ")", NESTING_MAX - 1)), Ok(()));
    for (open, close) in [
        ("(", ")"),
        ("!", ""),
        ("-", ""),
        ("[", "]"),
        ("{1: ", "}"),
        ("true ? true : ", ""),
        ("size(", ")"),
    ] {
        let error = check(&nested(open, close, 100)).unwrap_err();
        assert!(error.contains("more than 64 parts lie inside"), "{open}: {error}");
    }

    let chain = |n: usize| vec!["true"; n].join("&&");
    assert_eq!(check(&chain(NODES_MAX / 2)), Ok(()));
    let error = check(&chain(NODES_MAX / 2 + 1)).unwrap_err();
    assert!(error.contains("more than 256 parts"), "{error}");
    let error = check(&format!("[{}] == []", "1,".repeat(256))).unwrap_err();
    assert!(error.contains("more than 256 parts"), "{error}");
    // What stands behind one another is no nesting.
    assert!(evaluate(&format!("input{}", "[0]".repeat(120)), &bindings()).is_err());
    assert!(evaluate(&format!("input{}", ".a".repeat(250)), &bindings()).is_err());
    assert_eq!(
        evaluate(&format!("{}1 == 127", "1+".repeat(126)), &bindings()),
        Ok(true)
    );
}

/// Returns an input with a text of 1 MiB, a list of 100,000 objects and an object of 50,000 keys.
fn large() -> Opaque {
    let text = "x".repeat(1 << 20);
    let one = StructBuilder::new().number("n", 1.0).build();
    let list = (0..100_000).fold(ListBuilder::new(), |list, _| list.object(one.as_encoded()));
    let object = (0..50_000).fold(StructBuilder::new(), |object, n| {
        object.number(&format!("k{n}"), 1.0)
    });
    let input = StructBuilder::new()
        .text("text", &text)
        .list("list", list)
        .object("object", object.build().as_encoded())
        .build();
    StructBuilder::new().object("input", input.as_encoded()).build()
}

const SPENT: &str = "takes more work than is allowed";

/// Checks that only paid work is done: an empty budget gives no value that needs a search.
#[test]
fn nothing_is_looked_at_without_a_budget() {
    let bindings = large();
    for expression in [
        "input == 1",
        "input.n == 1",
        "size(input.object) > 0",
        "'a' in input.object",
        "input.object == input.object",
        "input.list[99999].n == 1",
        "size(input.list + input.list) > 0",
    ] {
        let mut budget = WalkBudget::new(0);
        let error = evaluate_within(expression, &bindings, &mut budget).unwrap_err();
        assert!(error.contains(SPENT), "{expression}: {error}");
    }
    // One entry of the bindings, one of the input before the object, and the entries of the object itself.
    let mut budget = WalkBudget::new(1 << 20);
    assert_eq!(
        evaluate_within("'k49999' in input.object", &bindings, &mut budget),
        Ok(true)
    );
    let spent = (1 << 20) - budget.left();
    assert!((50_000..50_100).contains(&spent), "{spent}");
}

#[test]
fn the_costliest_expressions_end_soon() {
    let bindings = large();
    let concatenated = vec!["input.text"; 60].join("+");
    let lists = vec!["input.list"; 60].join("+");
    let sizes = vec!["size(input.object)"; 40].join("+");
    let looked_up = vec!["'absent' in input.object"; 50].join(" || ");
    let looked_at = vec!["has(input.object.absent)"; 48].join(" || ");
    let compared = vec!["input.object != input.object"; 36].join(" || ");
    let few = vec!["input.object.k9 == 1"; 20].join(" && ");
    let contained = vec!["input.text.contains('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy')"; 40].join("||");
    let all = [
        format!("({looked_at})"),
        "input.object in [input.object, input.object]".to_owned(),
    ]
    .join(" || ");
    let cases: [(&str, Result<bool, &str>); 14] = [
        (&format!("size({concatenated}) > 0"), Err("makes more than")),
        (&format!("size({lists}) > 0"), Err("makes more than")),
        (&format!("{sizes} > 0"), Err(SPENT)),
        ("size(input.object) == 50000", Ok(true)),
        (&looked_up, Ok(false)),
        (&looked_at, Ok(false)),
        (&few, Ok(true)),
        (&compared, Err(SPENT)),
        (&all, Ok(true)),
        (&contained, Ok(false)),
        ("input.object in input.list", Err(SPENT)),
        ("input == input && input.list == input.list", Ok(true)),
        ("input.list == input.list + [1]", Ok(false)),
        ("size(input.text) == 1048576", Ok(true)),
    ];
    for (expression, expected) in cases {
        let begin = Instant::now();
        match (evaluate(expression, &bindings), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, expected) => panic!("{:.60}: {found:?}, not {expected:?}", expression),
        }
        // Far more than it takes, on any machine that runs this.
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{:.60}: {:?}",
            expression,
            begin.elapsed()
        );
    }
}

#[test]
fn bindings_that_are_broken_or_deep_are_no_panic() {
    let mut deep = Vec::new();
    for _ in 0..4000 {
        deep = ListBuilder::new()
            .value(escapement_model::opaque::ValueView::List(&deep))
            .into_encoded();
    }
    let value = escapement_model::opaque::ValueView::List(&deep);
    let bindings = StructBuilder::new()
        .value("input", value)
        .value("last", value)
        .build();
    let error = evaluate("input == last", &bindings).unwrap_err();
    assert!(error.contains("nested too deep"), "{error}");
    let broken = Opaque::from_encoded(vec![0x0a, 0xff, 0xff, 0x01].into());
    assert!(evaluate("input == 1", &broken).is_err());
}

/// Texts that are nearly expressions.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "input",
        "results",
        "last",
        "iteration",
        "null",
        "true",
        "false",
        "1",
        "0",
        "2.5",
        "-",
        "9223372036854775807",
        "'a'",
        "'two'",
        "''",
        "r'x'",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ",",
        ":",
        "?",
        ".",
        "!",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "+",
        "*",
        "/",
        "%",
        "size(",
        "int(",
        "double(",
        "string(",
        "has(",
        ".n",
        ".deep",
        ".list",
        ".text",
        ".`read-a`",
        ".size()",
        ".startsWith('a')",
        "[0]",
        "['n']",
        " ",
        "é",
        "\\",
        "\"",
        "`",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// Expressions without a mistake.
fn sound() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "input",
        "results",
        "input.n",
        "input.deep.list",
        "input.text",
        "last.done",
        "iteration",
        "null",
        "true",
        "false",
        "0",
        "1",
        "-9223372036854775808",
        "9223372036854775807",
        "1e308",
        "0.0",
        "'a'",
        "'é'",
        "[]",
        "{}",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 60, 4, |inner| {
        let two = (inner.clone(), inner.clone());
        let operators = vec![
            "||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%",
        ];
        prop_oneof![
            (prop::sample::select(operators), two.clone()).prop_map(|(op, (a, b))| format!("({a} {op} {b})")),
            (inner.clone(), two.clone()).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            two.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            two.prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            (
                prop::sample::select(vec!["size", "int", "double", "string", "!", "-"]),
                inner.clone()
            )
                .prop_map(|(f, a)| format!("{f}({a})")),
            inner.prop_map(|a| format!("has(({a}).n)")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn nothing_panics(expression in ".*", nearly in nearly(), sound in sound()) {
        let bindings = bindings();
        for expression in [&expression, &nearly, &sound] {
            let _ = (check(expression), evaluate(expression, &bindings));
        }
    }

    #[test]
    fn a_sound_expression_is_read(sound in sound()) {
        let is_large = sound.len() > EXPRESSION_BYTES_MAX;
        let error = check(&sound).err().filter(|error| !is_large && !error.contains("more than"));
        prop_assert_eq!(error, None);
    }

    #[test]
    fn a_value_is_the_same_each_time_and_not_is_its_opposite(sound in sound()) {
        let bindings = bindings();
        let value = evaluate(&sound, &bindings);
        prop_assert_eq!(&value, &evaluate(&sound, &bindings));
        if let Ok(value) = value {
            prop_assert_eq!(evaluate(&format!("!({sound})"), &bindings), Ok(!value));
        }
    }
}
