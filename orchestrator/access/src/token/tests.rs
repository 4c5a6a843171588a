//! The form of static tokens.

use super::{NotAToken, StaticToken};
use proptest::prelude::*;

#[test]
fn the_check_is_the_crc_of_everybody_else() {
    assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
}

#[test]
fn a_token_has_its_form_and_is_read_again() {
    let token = StaticToken::from_random([7; 32]);
    assert_eq!(token.secret().len(), StaticToken::BYTES);
    assert!(token.secret().starts_with("esc_BwcHBwcH"));
    assert_eq!(StaticToken::parse(token.secret()), Ok(token.clone()));
    assert_eq!(alloc::format!("{token:?}"), "StaticToken(…)");
}

proptest! {
    #[test]
    fn a_mistyped_character_is_noticed(bits: [u8; 32], at in 0..StaticToken::BYTES, other in "[A-Za-z0-9_-]") {
        let token = StaticToken::from_random(bits);
        let mut text = alloc::string::String::from(token.secret());
        text.replace_range(at..=at, &other);
        let is_same = text == token.secret();
        prop_assert_eq!(StaticToken::parse(&text), if is_same { Ok(token) } else { Err(NotAToken) });
    }
}
