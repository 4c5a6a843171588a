//! From the text of a line to an event. Knows the fields that all lines share.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Event, Hex, What};

type Fields = Map<String, Value>;

/// Reads one line.
pub(super) fn parse(line: usize, text: &str) -> Result<Event, String> {
    let mut fields: Fields = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(dropped) = fields.remove("dropped") {
        let n = dropped.as_u64().ok_or("`dropped` is no number")?;
        return Ok(Event {
            line,
            t: number(&mut fields, "t").unwrap_or(0),
            session: 0,
            what: What::Dropped(n),
        });
    }
    let t = number(&mut fields, "t")?;
    let session = number(&mut fields, "s")?;
    let direction = match fields.remove("dir") {
        Some(Value::String(direction)) => direction,
        _ => return Err("`dir` is missing".to_owned()),
    };
    let ends = fields.get("m").is_some_and(|m| m == "close");
    let what = match direction.as_str() {
        "in" => What::In {
            seq: number(&mut fields, "seq")?,
            message: body(fields)?,
        },
        "out" if ends => What::Ended,
        "out" => What::Out {
            seq: number(&mut fields, "seq")?,
            message: body(fields)?,
        },
        "shell" => match body(fields)? {
            Shell::Boot { boot, unix_ms } => What::Boot { boot, unix_ms },
            Shell::Opened {} => What::Opened,
            Shell::Closed {} => What::Closed,
        },
        "call" => What::Call(body(fields)?),
        "reply" => What::Reply(body(fields)?),
        _ => return Err(format!("`dir` is `{direction}`")),
    };
    Ok(Event {
        line,
        t,
        session,
        what,
    })
}

/// What the shell says.
#[derive(Deserialize)]
#[serde(tag = "m", rename_all = "snake_case")]
enum Shell {
    Boot {
        boot: Hex,
        #[serde(default)]
        unix_ms: Option<i64>,
    },
    Opened {},
    Closed {},
}

fn number(fields: &mut Fields, name: &str) -> Result<u64, String> {
    match fields.remove(name) {
        Some(value) => value
            .as_u64()
            .ok_or_else(|| format!("`{name}` is no whole number")),
        None => Err(format!("`{name}` is missing")),
    }
}

fn body<T: DeserializeOwned>(fields: Fields) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}
