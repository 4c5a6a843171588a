//! Expressions with what they come to. Those of the first tables are facts of the conformance data that CEL publishes, each
//! made a comparison if its value is neither true nor false.

mod bindings;

use bindings::bindings;
use escapement_expressions::{check, evaluate};

/// Each expression has this value.
#[track_caller]
fn assert_values(cases: &[(&str, bool)]) {
    let bindings = bindings();
    for (expression, expected) in cases {
        assert_eq!(evaluate(expression, &bindings), Ok(*expected), "{expression}");
    }
}

/// No expression has a value, and the sentence about it contains a part.
#[track_caller]
fn assert_errors(cases: &[(&str, &str)]) {
    let bindings = bindings();
    for (expression, part) in cases {
        let error = evaluate(expression, &bindings).expect_err(expression);
        assert!(error.contains(part), "{expression}: {error}");
    }
}

#[test]
fn logic_decides_with_one_side_if_that_is_enough() {
    assert_values(&[
        ("(true ? 1 : 2) == 1", true),
        ("(false ? 'foo' : 'bar') == 'bar'", true),
        ("(true ? 'cows' : 17) == 'cows'", true),
        ("true && true", true),
        ("false && false", false),
        ("false && true", false),
        ("true && false", false),
        ("false && 32", false),
        ("'horses' && false", false),
        ("false && (2 / 0 > 3 ? false : true)", false),
        ("(2 / 0 > 3 ? false : true) && false", false),
        ("true || true", true),
        ("false || false", false),
        ("true || 32", true),
        ("'horses' || true", true),
        ("(2 / 0 > 3 ? false : true) || true", true),
        ("!true", false),
        ("!false", true),
        ("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!true", true),
        ("[1, 2, 3][3] == 1 || true", true),
        ("unknown || true", true),
        ("true ? true : false ? false : false", true),
    ]);
    assert_errors(&[
        ("2 / 0 > 4 ? true : false", "divided by zero"),
        ("'cows' ? false : true", "? takes a boolean, not a text"),
        ("true && 1 / 0 != 0", "divided by zero"),
        ("1 / 0 != 0 || false", "divided by zero"),
        (
            "'less filling' && 'tastes great'",
            "&& takes booleans, not a text",
        ),
        ("[1, 2, 3][3] == 1 || false", "nothing at 3"),
        ("!1", "! takes a boolean, not an int"),
    ]);
}

#[test]
fn ints_are_exact_or_fail() {
    assert_values(&[
        ("40 + 2 == 42", true),
        ("42 + (-7) == 35", true),
        ("42 - (-22) == 64", true),
        ("-30 * (-2) == 60", true),
        ("-80 / (-2) == 40", true),
        ("7 / 2 == 3", true),
        ("-7 / 2 == -3", true),
        ("47 % 5 == 2", true),
        ("43 % (-5) == 3", true),
        ("-42 % (-5) == -2", true),
        ("-3 % 5 == -3", true),
        ("-(-42) == 42", true),
        ("--------------------------------19 == 19", true),
        ("-9223372036854775808 < -9223372036854775807", true),
        ("0x55555555 == 1431655765", true),
        ("-0x55555555 == -1431655765", true),
        ("15 * (23 * 88) == (15 * 23) * 88", true),
        ("4 * 4 / 4 * 4 / 4 * 4 / 4 == 4", true),
        ("3 - 3 + 3 - 3 + 3 == 3", true),
        ("1 + 2 * 3 == 7", true),
    ]);
    assert_errors(&[
        ("9223372036854775807 + 1 == 0", "more than 64 bits"),
        ("-9223372036854775808 - 1 == 0", "more than 64 bits"),
        ("-(-9223372036854775808) == 0", "more than 64 bits"),
        ("(-9223372036854775808) * -1 == 0", "more than 64 bits"),
        ("(-9223372036854775808) / -1 == 0", "more than 64 bits"),
        ("(-9223372036854775808) % -1 == 0", "more than 64 bits"),
        ("5000000000 * 5000000000 == 0", "more than 64 bits"),
        ("15 / 0 == 0", "divided by zero"),
        ("34 % 0 == 0", "divided by zero"),
        ("-false", "- takes a number, not a boolean"),
        ("9223372036854775808 > 0", "more than 64 bits"),
    ]);
}

#[test]
fn doubles_follow_their_standard() {
    assert_values(&[
        ("4.25 + 15.25 == 19.5", true),
        ("42.875 - (-22.0) == 64.875", true),
        ("-8.875 / (-0.0625) == 142.0", true),
        ("-(-1.25) == 1.25", true),
        ("15.75 / 0.0 > 1e308", true),
        ("2.0 * 8.988466e+307 * 2.0 == 1.0 / 0.0", true),
        ("1e-324 / 2.0 == 0.0", true),
        ("-2.3e+1 == -23.0", true),
        (".5 == 0.5", true),
        ("0.0 / 0.0 == 0.0 / 0.0", false),
        ("0.0 / 0.0 < 1.0", false),
        ("0.0 / 0.0 >= 1", false),
        ("-0.0 == 0.0", true),
    ]);
    assert_errors(&[(
        "47.5 % 5.5 == 0.0",
        "% does not take a double and a double; it takes whole numbers",
    )]);
}

#[test]
fn kinds_are_compared_as_the_language_says() {
    assert_values(&[
        ("1 == 1.0", true),
        ("1.0 == 1", true),
        ("3.1 == 3", false),
        ("2 < 3.1", true),
        ("3.1 < 3", false),
        ("9007199254740993 == 9007199254740992.0", false),
        ("9007199254740993 > 9007199254740992.0", true),
        ("9223372036854775807 < 9223372036854775808.0", true),
        ("-9223372036854775808 == -9223372036854775808.0", true),
        ("-9223372036854775808 > -9.3e18", true),
        ("-3 > -3.5", true),
        ("1 == '1'", false),
        ("1 != '1'", true),
        ("null == null", true),
        ("null == false", false),
        ("null == 0", false),
        ("false < true", true),
        ("'a' < 'b' && 'a' < 'aa' && 'Z' < 'a'", true),
        ("'\\u00e9' > 'z'", true),
        ("[1, 2.0] == [1.0, 2]", true),
        ("[1, 2] == [1, 2, 3]", false),
        ("[1, 2, 3] == [1, 2]", false),
        ("{'a': 1, 'b': 2} == {'b': 2.0, 'a': 1.0}", true),
        ("{'a': 1} == {'a': 2}", false),
        ("{'a': 1} == {'b': 1}", false),
        ("{1: 1} == {'1': 1}", false),
        ("{} == []", false),
    ]);
    assert_errors(&[
        ("1 < 'a'", "< does not take an int and a text"),
        ("null <= null", "<= does not take null and null"),
        ("[1] > [0]", "> does not take a list and a list"),
    ]);
}

#[test]
fn lists_and_maps_are_looked_into() {
    assert_values(&[
        ("[7, 8, 9][0] == 7", true),
        ("[7, 8, 9][0.0] == 7", true),
        ("['George', 'John', 'Paul', 'Ringo'][3] == 'Ringo'", true),
        ("[[[[['foo']]]]][0][0][0][0][0] == 'foo'", true),
        ("[0, 1, 2] + [3, 4, 5] == [0, 1, 2, 3, 4, 5]", true),
        ("[0, 1, 2] + [3, 4, 5] == [3, 4, 5, 0, 1, 2]", false),
        ("[] + [] == []", true),
        ("7 in []", false),
        ("'alpha' in ['alpha', 'beta', 'gamma']", true),
        ("3.0 in [5, 4, 3, 2, 1]", true),
        ("{27: false}[27]", false),
        ("{true: 5}[true] == 5", true),
        ("{1: 1.0, 2: 2.0, 3: 3.0}[3.0] == 3.0", true),
        ("{'map': {'k': 'v'}, 'list': [1],}['map'] == {'k': 'v'}", true),
        ("{'foo.txt': 32}.`foo.txt` == 32", true),
        ("has({'a': 1, 'b': 2}.a)", true),
        ("has({'a': 1, 'b': 2}.c)", false),
        ("has({}.a)", false),
        ("has({'foo.txt': 32}.`foo.txt`)", true),
        ("'George' in {'John': 'smart', 'George': 'quiet'}", true),
        ("3.1 in {1: 1, 2: 2, 3: 3}", false),
        ("null in {'a': 1}", false),
        ("size([]) == 0 && size({}) == 0 && size('') == 0", true),
        ("size({1: 'one', 2: 'two', 3: 'three'}) == 3", true),
        ("[1, 2].size() == 2", true),
    ]);
    assert_errors(&[
        ("[7, 8, 9][0.1] == 7", "an index is a whole number"),
        ("[1, 2, 3][''] == 1", "an index is a whole number"),
        ("[1, 2, 3][-1] == 1", "nothing at -1"),
        ("{0: 1, 2: 2}[1] == 1", "nothing at 1"),
        ("{1: 1}[3.1] == 1", "nothing at 3.1"),
        ("{'a': 1}.b == 1", "no key \"b\""),
        ("{'a': 1}['b'] == 1", "no key \"b\""),
        ("{1.0: 5}[1.0] == 5", "a double is no key of a map"),
        ("{null: false}[null]", "null is no key of a map"),
        ("{true: 1, true: 3}[true] == 1", "there twice"),
        ("1 in 2", "in does not take an int and an int"),
        ("1[0] == 1", "[] takes of a list or a map, not of an int"),
        ("'a'.b == 1", "a text has no key"),
        ("has('a'.b)", "a text has no key"),
        ("size(1) == 1", "size takes a text, a list or a map, not an int"),
        ("[1] + 1 == [1, 1]", "+ does not take a list and an int"),
    ]);
}

#[test]
fn texts_are_read_and_asked() {
    assert_values(&[
        ("size('πέντε') == 5", true),
        ("'πέντε'.size() == 5", true),
        ("'foobar'.startsWith('foo')", true),
        ("'foobar'.startsWith('bar')", false),
        ("'foobar'.endsWith('bar')", true),
        ("''.endsWith('')", true),
        ("'abababc'.contains('ababc')", true),
        ("'Straße'.contains('aß')", true),
        ("'he' + 'llo' == 'hello'", true),
        ("'\\U0001F431\\U0001F600'.startsWith('\\U0001f431')", true),
        ("\"\\u270c\" == '✌'", true),
        ("'\\x41\\101' == 'AA'", true),
        ("r'\\n' == '\\\\n'", true),
        ("R\"it's\" == 'it\\'s'", true),
        (
            "'\\a\\b\\f\\n\\r\\t\\v\\\"\\'\\\\\\?\\`' == \"\\x07\\x08\\x0c\\x0a\\x0d\\x09\\x0b\\x22\\x27\\x5c\\x3f\\x60\"",
            true,
        ),
        ("'// no comment' == '// no comment' // but this is one", true),
        ("true // ends\n && false", false),
    ]);
    assert_errors(&[
        ("'a' + 1 == 'a1'", "+ does not take a text and an int"),
        (
            "'a'.contains(1)",
            "contains is asked of a text about a text, not of a text about an int",
        ),
        ("[1].startsWith('a')", "not of a list"),
    ]);
}

#[test]
fn conversions_keep_the_value_or_fail() {
    assert_values(&[
        ("int(1.9) == 1 && int(-7.9) == -7", true),
        ("int('987') == 987 && int('-3') == -3", true),
        ("int(36028797018963969.0) == 36028797018963968", true),
        ("double('-5.43e-21') == -5.43e-21", true),
        ("double(9223372036854775807) == 9.223372036854775807e18", true),
        ("double('123') == 123", true),
        ("string(123) == '123' && string(-456) == '-456'", true),
        (
            "string(123.456) == '123.456' && string(-4.5e-3) == '-0.0045'",
            true,
        ),
        ("string(true) == 'true' && string('x') == 'x'", true),
        ("string('a' + 'b') == 'ab'", true),
        ("string(input.n) == '3'", true),
    ]);
    assert_errors(&[
        ("int(9223372036854775807.0) == 0", "no int of 64 bits"),
        ("int(-9223372036854775808.0) == 0", "no int of 64 bits"),
        ("int(1e99) == 0", "no int of 64 bits"),
        ("int(0.0 / 0.0) == 0", "no int of 64 bits"),
        ("int('1.5') == 1", "the text is no int"),
        ("double('x') == 1.0", "the text is no number"),
        ("int(true) == 1", "int takes a number or a text, not a boolean"),
        ("double(null) == 0.0", "double takes a number or a text, not null"),
        ("string([]) == ''", "string takes"),
    ]);
}

#[test]
fn what_a_run_knows_is_read() {
    assert_values(&[
        ("input.n == 3", true),
        ("input.n > 2 && input.n < 4", true),
        ("input.n + 1.0 == 4", true),
        ("int(input.n) + 1 == 4", true),
        (
            "input.n + 1 == 4 && 1 - input.n == -2.0 && input.n / 2 == 1.5",
            true,
        ),
        ("input.n % 2 == 1", true),
        ("int(input.n) % 2 == 1", true),
        ("input.text != 'Keep as is'", true),
        ("input.nothing == null", true),
        ("has(input.nothing) && !has(input.absent)", true),
        ("has(input.deep.list) && size(input.deep.list) == 3", true),
        ("input.deep.list[1] == 'two'", true),
        ("input.deep.list[input.n - 2.0] == 'two'", true),
        ("'two' in input.deep.list && !(2 in input.deep.list)", true),
        ("'n' in input", true),
        ("input.deep == {'list': [1, 'two', true]}", true),
        ("[0] + input.deep.list == [0, 1, 'two', true]", true),
        ("results.count.urgentCount > 0", true),
        ("results.`read-a`.text.startsWith('Read')", true),
        ("results['read-a'].text.startsWith('Read')", true),
        ("run.id == 'r-1'", true),
        ("iteration < 4 && last.done == false", true),
        ("has(results.absent) ? results.absent.x : iteration == 2", true),
        ("input.twice == 2", true),
        ("input['in'] == 1 && input.in == 1", true),
    ]);
    assert_errors(&[
        (
            "(input.n + 0.5) % 2 == 1",
            "it takes whole numbers, and int() makes one",
        ),
        ("input.n % 0 == 1", "an int is divided by zero"),
        ("input.absent", "no key \"absent\""),
        ("results.absent.x == 1", "no key \"absent\""),
        ("session.x == 1", "session has no value here"),
        ("input.n", "comes to a double, not to true or false"),
        ("input.text", "comes to a text"),
        ("input", "comes to a map"),
        ("null", "comes to null"),
    ]);
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let cases = [
        ("", "at character 1: a value is missing"),
        ("1 +", "at character 4: a value is missing"),
        ("é == 1", "at character 1: 'é' does not belong into an expression"),
        ("'é' == $", "at character 8: '$' does not belong"),
        ("input.n = 3", "at character 9: one = is no operator"),
        ("(1 == 1", "at character 8: ) is missing"),
        ("1 == 1)", "at character 7: here the expression should end"),
        ("[1, 2", "] is missing"),
        ("{1, 2}", "at character 3: : is missing"),
        ("true ? 1", ": is missing"),
        ("'open", "at character 1: the text has no end"),
        ("'two\nlines' == ''", "a text ends in its line"),
        ("'\\q' == ''", "\\q is not known"),
        ("'\\u12' == ''", "stand 4 digits"),
        ("'\\ud800' == ''", "stand 4 digits"),
        ("'\\u123é' == ''", "stand 4 digits"),
        ("12abc == 1", "a number ends before a letter"),
        ("1e == 1", "the number cannot be read"),
        ("0x == 1", "the number cannot be read"),
        ("1u == 1", "a number ends before a letter"),
        ("input.", "after the point stands a name"),
        ("input.1", "should end"),
        ("`a` == 1", "a key in backticks stands behind a point"),
        ("input.`a", "the ` has no end"),
        ("in == 1", "before `in` a value is missing"),
        ("input.tags.exists(t, t == 'a')", "there is no function exists"),
        ("'a'.matches('a+')", "there is no function matches"),
        ("f(1)", "there is no function f"),
        ("startsWith('a')", "there is no function startsWith"),
        ("size()", "at character 1: size takes 1 argument"),
        ("'a'.startsWith()", "startsWith takes 1 argument"),
        ("'a'.size(1)", "size takes 0 arguments"),
        ("has(input)", "has takes a field"),
        ("has(input['a'])", "has takes a field"),
        ("has(input.a, 1)", ") is missing"),
        ("1 < 2 < ", "a value is missing"),
    ];
    for (expression, part) in cases {
        let error = check(expression).expect_err(expression);
        assert!(error.contains(part), "{expression}: {error}");
        assert_eq!(evaluate(expression, &bindings()), Err(error));
    }
}

#[test]
fn a_check_knows_the_names() {
    for sound in [
        "input.a == run.id && session.s != results.x.y && input.a == iteration && has(last.z)",
        "{'a': [input.b ? -iteration : size(results)]}['a'][0] in last",
        "'true' == 'false'",
    ] {
        assert_eq!(check(sound), Ok(()), "{sound}");
    }
    for unsound in [
        "urgentCount > 0",
        "true || x",
        "{x: 1}[1]",
        "[!x]",
        "size(x)",
        "has(x.y)",
        "input[x]",
        "-x < 1",
    ] {
        let error = check(unsound).expect_err(unsound);
        assert!(
            error.contains("none of the names input, run, session, results, iteration, last"),
            "{unsound}: {error}"
        );
    }
}
