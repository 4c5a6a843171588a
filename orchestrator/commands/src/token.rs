//! `token`: makes static tokens, and says what the policy holds of them. Keeps none, and reads no policy.

use crate::Failure;
use crate::said::say;
use clap::{Args, Subcommand};
use escapement_access::StaticToken;
use escapement_model::hex;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// What to do about a token.
#[derive(Args, Clone, Debug)]
pub struct Token {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Makes a token: 256 random bits. It is said this once, and kept nowhere.
    New(New),
    /// Reads a token from stdin and says its digest.
    Hash,
}

#[derive(Args, Clone, Debug)]
struct New {
    /// What records and logs call its holder.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: String,
}

/// Does it.
pub(crate) fn run(flags: &Token) -> Result<(), Failure> {
    match &flags.what {
        What::New(new) => make(&new.name),
        What::Hash => hash(),
    }
}

fn make(name: &str) -> Result<(), Failure> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| Failure::Input {
        path: PathBuf::from("the operating system's randomness"),
        problem: error.to_string(),
    })?;
    let token = StaticToken::from_random(bits);
    let sha256 = hex::text(&token.sha256());
    // A text of JSON is one of TOML, too: names hold no control characters.
    let quoted = json!(name);
    let entry = format!("[[token]]\nname = {quoted}\nsha256 = \"{sha256}\"\nroles = []\n");
    say(&json!({
        "event": "token_made",
        "name": name,
        "token": token.secret(),
        "sha256": sha256,
        "policy_entry": entry,
    }));
    Ok(())
}

fn hash() -> Result<(), Failure> {
    let stdin = || PathBuf::from("stdin");
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(TEXT_BYTES_MAX);
    input.read_to_string(&mut text).map_err(|source| Failure::File {
        path: stdin(),
        source,
    })?;
    let token = StaticToken::parse(text.trim()).map_err(|error| Failure::Input {
        path: stdin(),
        problem: error.to_string(),
    })?;
    say(&json!({"event": "token_hashed", "sha256": hex::text(&token.sha256())}));
    Ok(())
}

fn parse_name(name: &str) -> Result<String, &'static str> {
    let holds = (1..=255).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    match holds {
        true => Ok(name.to_owned()),
        false => Err("give 1 to 255 characters, none of them a control character"),
    }
}

/// More than any token has, also with blanks around it.
const TEXT_BYTES_MAX: u64 = 4_096;
