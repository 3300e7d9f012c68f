//! Writes the JSON Schema of parameters, in the words that the contract has.
//!
//! A default is filled in by the host before a policy is asked, so what is written here once is not written again where parameters are read.
//! Parameters that are not named are refused, so that a misspelt one is noticed.
//!
//! ```
//! use tanist_policy::{Description, schema::{integer, list, object, optional, required, text}};
//!
//! let schema = object([
//!     required("zone", text().min_length(1).describe("The zone whose members lead.")),
//!     optional("patience", integer().minimum(0).maximum(3600).default(30)),
//!     optional("never", list(text()).max_items(100)),
//! ]);
//! let description = Description::new("mine", "1.0.0", "The members of one zone lead.").with_schema(&schema);
//! # assert!(description.parameters.unwrap().contains(r#""zone":{"type":"string","minLength":1,"description":"The zone"#));
//! ```

use std::fmt::{self, Display, Write};

/// What a value has to be. Its text is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Its words with their values, as they stand between the braces.
    words: String,
}

impl Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.words)
    }
}

/// A value in a schema, as JSON: made of a text, a whole number, a boolean, or a list of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(String);

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        let mut out = String::from('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => out.extend(['\\', character]),
                // Writing to a string does not fail.
                '\0'..='\u{1f}' => drop(write!(out, "\\u{:04x}", u32::from(character))),
                other => out.push(other),
            }
        }
        out.push('"');
        Self(out)
    }
}

impl From<bool> for Json {
    fn from(flag: bool) -> Self {
        Self(flag.to_string())
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Json {
    fn from(items: [T; N]) -> Self {
        Self(format!("[{}]", joined(items.into_iter().map(|item| item.into().0))))
    }
}

/// A text: a JSON string of any length.
pub fn text() -> Schema {
    Schema::of_type("string")
}

/// A whole number.
pub fn integer() -> Schema {
    Schema::of_type("integer")
}

/// A number, with or without a fraction.
pub fn number() -> Schema {
    Schema::of_type("number")
}

/// `true` or `false`.
pub fn flag() -> Schema {
    Schema::of_type("boolean")
}

/// One of these values.
pub fn one_of<T: Into<Json>>(values: impl IntoIterator<Item = T>) -> Schema {
    Schema { words: format!("\"enum\":[{}]", joined(values.into_iter().map(|value| value.into().0))) }
}

/// A list of such items.
pub fn list(items: Schema) -> Schema {
    Schema::of_type("array").with("items", items)
}

/// A named parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    schema: Schema,
    is_required: bool,
}

/// A parameter that has to be given.
pub fn required(name: &str, schema: Schema) -> Field {
    Field { name: name.to_owned(), schema, is_required: true }
}

/// A parameter that may be left out. With a default a policy always finds it.
pub fn optional(name: &str, schema: Schema) -> Field {
    Field { name: name.to_owned(), schema, is_required: false }
}

/// An object with these fields and no others. The schema of all parameters of a policy is one.
pub fn object(fields: impl IntoIterator<Item = Field>) -> Schema {
    let fields: Vec<_> = fields.into_iter().collect();
    let names = fields.iter().filter(|field| field.is_required).map(|field| Json::from(field.name.as_str()).0);
    let properties = fields.iter().map(|field| format!("{}:{}", Json::from(field.name.as_str()).0, field.schema));
    Schema::of_type("object")
        .with("additionalProperties", false)
        .with("required", format_args!("[{}]", joined(names)))
        .with("properties", format_args!("{{{}}}", joined(properties)))
}

impl Schema {
    fn of_type(name: &str) -> Self {
        Self { words: format!("\"type\":\"{name}\"") }
    }

    fn with(mut self, word: &str, value: impl Display) -> Self {
        // Writing to a string does not fail.
        let _ = write!(self.words, ",\"{word}\":{value}");
        self
    }

    /// What it is without the user's saying. Of an object it is refused by the host if it is not valid.
    #[must_use]
    pub fn default(self, value: impl Into<Json>) -> Self {
        self.with("default", value.into().0)
    }

    /// The least number.
    #[must_use]
    pub fn minimum(self, number: i64) -> Self {
        self.with("minimum", number)
    }

    /// The greatest number.
    #[must_use]
    pub fn maximum(self, number: i64) -> Self {
        self.with("maximum", number)
    }

    /// The least number of characters of a text.
    #[must_use]
    pub fn min_length(self, characters: u32) -> Self {
        self.with("minLength", characters)
    }

    /// The greatest number of characters of a text.
    #[must_use]
    pub fn max_length(self, characters: u32) -> Self {
        self.with("maxLength", characters)
    }

    /// The least number of items of a list.
    #[must_use]
    pub fn min_items(self, items: u32) -> Self {
        self.with("minItems", items)
    }

    /// The greatest number of items of a list.
    #[must_use]
    pub fn max_items(self, items: u32) -> Self {
        self.with("maxItems", items)
    }

    /// What it means, for users.
    #[must_use]
    pub fn describe(self, text: &str) -> Self {
        self.with("description", Json::from(text).0)
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    // P49: functions write a schema.
    #[test]
    fn a_schema_is_json_in_the_words_of_the_contract() {
        let schema = object([
            required("zone", text().min_length(1).max_length(63)),
            optional("n", integer().minimum(-1).maximum(9).default(3)),
            optional("share", number()),
            optional("order", one_of(["up", "down"]).default("up")),
            optional("on", flag().default(true)),
            optional("list", list(text()).min_items(1).max_items(2).default(["x", "y"])),
        ]);
        assert_eq!(
            schema.to_string(),
            concat!(
                r#"{"type":"object","additionalProperties":false,"required":["zone"],"properties":{"#,
                r#""zone":{"type":"string","minLength":1,"maxLength":63},"#,
                r#""n":{"type":"integer","minimum":-1,"maximum":9,"default":3},"#,
                r#""share":{"type":"number"},"order":{"enum":["up","down"],"default":"up"},"#,
                r#""on":{"type":"boolean","default":true},"#,
                r#""list":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2,"default":["x","y"]}}}"#
            )
        );
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(Json::from("a\"b\\c\n\u{1f}é").0, r#""a\"b\\c\u000a\u001fé""#);
        assert_eq!(
            required("a\"", text().describe("\"")).schema.to_string(),
            r#"{"type":"string","description":"\""}"#
        );
        assert!(object([required("a\"", text())]).to_string().contains(r#""required":["a\""],"properties":{"a\"":"#));
    }
}
