//! Writes values as YAML on one line. The reader of cases has no writer of its own, and a whole library for a few lines would be too much; what is written is
//! read back before it is used.

use serde_json::Value;

/// Words that are no text in some version of YAML.
const NO_TEXT: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// A value on one line.
#[must_use]
pub fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(all) => format!("[{}]", all.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            mapping(&fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect::<Vec<_>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A mapping on one line, in this order.
#[must_use]
pub fn mapping(fields: &[(&str, Value)]) -> String {
    let one = |(key, value): &(&str, Value)| format!("{}: {}", scalar(key), flow(value));
    format!("{{{}}}", fields.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A text, with quotes where it needs them. Texts of JSON are texts of YAML.
#[must_use]
pub fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        && !NO_TEXT.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// Text for a comment: one line without control characters.
#[must_use]
pub fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
