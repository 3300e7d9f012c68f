//! The part of JSON Schema that describes parameters, and the check of parameters against it.
//!
//! A schema comes from an untrusted policy, so only the keywords of [`WORDS`] are accepted: no references, no patterns, nothing that takes longer than
//! a time proportional to the text. What they mean is held against the official test suite of JSON Schema (`suite.rs`).

mod samples;
#[cfg(test)]
mod suite;

pub(crate) use samples::{Samples, samples};

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Map, Number, Value};

use crate::{
    error::{ParametersError, SchemaError},
    limits::Limits,
    text::short,
};

/// The largest number of levels of a schema, and so of parameters.
const DEPTH: usize = 8;

/// The words of JSON Schema 2020-12 that are understood; `wit/policy.wit` promises them to authors. A schema with any other word is refused with that
/// word's name: a rule that is ignored would be one that its author relies on.
const WORDS: [&str; 16] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "title",
    "description",
];

/// What parameters must be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schema {
    kind: Option<Kind>,
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    closed: bool,
    items: Option<Box<Schema>>,
    one_of: Option<Vec<Value>>,
    default: Option<Value>,
    minimum: Option<Number>,
    maximum: Option<Number>,
    length: (Option<u64>, Option<u64>),
    count: (Option<u64>, Option<u64>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    Null,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "a list",
            Self::String => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Null => "null",
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Object(_) => Self::Object,
            Value::Array(_) => Self::Array,
            Value::String(_) => Self::String,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::Bool(_) => Self::Boolean,
            Value::Null => Self::Null,
        }
    }

    fn has(self, value: &Value) -> bool {
        let found = Self::of(value);
        found == self || (self == Self::Number && found == Self::Integer)
    }
}

impl Schema {
    /// Parses a schema.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Self, SchemaError> {
        let fail = |message| SchemaError { path: "schema".to_owned(), message };
        if text.len() > limits.schema_bytes {
            return Err(fail(format!("it has {} bytes, {} are allowed", text.len(), limits.schema_bytes)));
        }
        let value = serde_json::from_str(text).map_err(|error| fail(format!("it is not JSON: {error}")))?;
        let schema = Self::read(&value, "schema", DEPTH)?;
        if schema.kind != Some(Kind::Object) {
            return Err(fail("its `type` must be `object`".to_owned()));
        }
        Ok(schema)
    }

    fn read(value: &Value, path: &str, depth: usize) -> Result<Self, SchemaError> {
        let fail = |message: String| SchemaError { path: short(path, 256), message };
        let depth = depth.checked_sub(1).ok_or_else(|| fail(format!("more than {DEPTH} levels")))?;
        let words = value.as_object().ok_or_else(|| fail("expected an object".to_owned()))?;
        let mut schema = Self {
            kind: None,
            properties: BTreeMap::new(),
            required: Vec::new(),
            closed: false,
            items: None,
            one_of: None,
            default: None,
            minimum: None,
            maximum: None,
            length: (None, None),
            count: (None, None),
        };
        if let Some(word) = words.keys().find(|word| !WORDS.contains(&word.as_str())) {
            let known = WORDS.join(", ");
            return Err(fail(format!("`{}` is not understood; the words that are: {known}", short(word, 64))));
        }
        for (word, value) in words {
            let expected = |what: &str| fail(format!("expected {what} as `{word}`"));
            let count = || plain(value).as_u64().map(Some).ok_or_else(|| expected("a whole number from 0"));
            match word.as_str() {
                "type" => {
                    let kind = value.as_str().and_then(Kind::parse);
                    schema.kind = Some(kind.ok_or_else(|| expected("the name of one type"))?);
                }
                "properties" => {
                    for (name, value) in value.as_object().ok_or_else(|| expected("an object"))? {
                        let property = Self::read(value, &format!("{path}.properties.{name}"), depth)?;
                        schema.properties.insert(name.clone(), property);
                    }
                }
                "required" => {
                    let names = value.as_array().ok_or_else(|| expected("a list"))?.iter();
                    let names: Option<_> = names.map(|name| name.as_str().map(str::to_owned)).collect();
                    schema.required = names.ok_or_else(|| expected("a list of texts"))?;
                }
                "additionalProperties" if value == &Value::Bool(false) => schema.closed = true,
                "additionalProperties" => return Err(expected("false")),
                "items" => schema.items = Some(Box::new(Self::read(value, &format!("{path}.items"), depth)?)),
                "enum" => {
                    let values = value.as_array().filter(|values| !values.is_empty());
                    schema.one_of =
                        Some(values.ok_or_else(|| expected("a list of values"))?.iter().map(plain).collect());
                }
                "const" => schema.one_of = Some(vec![plain(value)]),
                "default" => schema.default = Some(plain(value)),
                "minimum" => schema.minimum = Some(value.as_number().ok_or_else(|| expected("a number"))?.clone()),
                "maximum" => schema.maximum = Some(value.as_number().ok_or_else(|| expected("a number"))?.clone()),
                "minLength" => schema.length.0 = count()?,
                "maxLength" => schema.length.1 = count()?,
                "minItems" => schema.count.0 = count()?,
                "maxItems" => schema.count.1 = count()?,
                // `title` and `description`.
                _ if value.is_string() => {}
                _ => return Err(expected("a text")),
            }
        }
        if words.contains_key("enum") && words.contains_key("const") {
            return Err(fail("`enum` and `const` exclude each other".to_owned()));
        }
        if let Some(default) = schema.default.take() {
            let checked = schema.check(&default, "default");
            schema.default = Some(checked.map_err(|error| fail(format!("its own `default` is not valid: {error}")))?);
        }
        Ok(schema)
    }

    /// The value with defaults filled in, if it is valid.
    fn check(&self, value: &Value, path: &str) -> Result<Value, ParametersError> {
        let fail = |message: String| ParametersError { path: short(path, 256), message };
        let value = plain(value);
        if let Some(kind) = self.kind
            && !kind.has(&value)
        {
            return Err(fail(format!("expected {}, found {}", kind.describe(), Kind::of(&value).describe())));
        }
        let value = match value {
            Value::Object(fields) => Value::Object(self.check_fields(fields, path)?),
            Value::Array(items) => {
                within(items.len() as u64, self.count, "items").map_err(fail)?;
                let items = items.iter().enumerate().map(|(index, item)| match &self.items {
                    Some(schema) => schema.check(item, &format!("{path}[{index}]")),
                    None => Ok(plain(item)),
                });
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::String(text) => {
                within(text.chars().count() as u64, self.length, "characters").map_err(fail)?;
                Value::String(text)
            }
            Value::Number(number) => match (&self.minimum, &self.maximum) {
                (Some(minimum), _) if less(&number, minimum) => {
                    return Err(fail(format!("{number} is less than {minimum}")));
                }
                (_, Some(maximum)) if less(maximum, &number) => {
                    return Err(fail(format!("{number} is more than {maximum}")));
                }
                _ => Value::Number(number),
            },
            other @ (Value::Bool(_) | Value::Null) => other,
        };
        match &self.one_of {
            Some(values) if !values.contains(&value) => {
                let allowed: Vec<_> = values.iter().map(canonical).collect();
                let (found, allowed) = (short(&canonical(&value), 64), short(&allowed.join(", "), 256));
                Err(fail(format!("{found} is none of {allowed}")))
            }
            _ => Ok(value),
        }
    }

    fn check_fields(&self, fields: Map<String, Value>, path: &str) -> Result<Map<String, Value>, ParametersError> {
        let at = |name: &str| short(&format!("{path}.{name}"), 256);
        let mut checked = Map::new();
        for (name, value) in &fields {
            let value = match self.properties.get(name) {
                Some(schema) => schema.check(value, &at(name))?,
                None if self.closed => {
                    let known: Vec<_> = self.properties.keys().map(String::as_str).collect();
                    let message = format!("there is no such parameter; there are: {}", short(&known.join(", "), 256));
                    return Err(ParametersError { path: at(name), message });
                }
                None => value.clone(),
            };
            checked.insert(name.clone(), value);
        }
        for (name, schema) in &self.properties {
            if let Some(default) = &schema.default
                && !checked.contains_key(name)
            {
                checked.insert(name.clone(), default.clone());
            }
        }
        match self.required.iter().find(|name| !checked.contains_key(*name)) {
            Some(name) => Err(ParametersError { path: at(name), message: "it is required".to_owned() }),
            None => Ok(checked),
        }
    }
}

/// The parameters in the form that a policy gets, if they are valid by the schema. Without a schema no parameters are allowed.
pub(crate) fn validate(schema: Option<&Schema>, text: &str, limits: &Limits) -> Result<String, ParametersError> {
    let fail = |message| ParametersError { path: "parameters".to_owned(), message };
    if text.len() > limits.parameters_bytes {
        return Err(fail(format!("they have {} bytes, {} are allowed", text.len(), limits.parameters_bytes)));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| fail(format!("they are not JSON: {error}")))?;
    let checked = match schema {
        Some(schema) => schema.check(&value, "parameters")?,
        None if value == Value::Object(Map::new()) => value,
        None => return Err(fail("this policy takes no parameters".to_owned())),
    };
    let text = canonical(&checked);
    if text.len() > limits.parameters_bytes {
        return Err(fail(format!(
            "with defaults they have {} bytes, {} are allowed",
            text.len(),
            limits.parameters_bytes
        )));
    }
    Ok(text)
}

/// Changes whole numbers that are written as fractions into integers, everywhere in the value.
fn plain(value: &Value) -> Value {
    /// Above this number a floating-point number cannot represent every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

fn within(number: u64, (least, most): (Option<u64>, Option<u64>), what: &str) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if number < least => Err(format!("{number} {what}, at least {least} are needed")),
        (_, Some(most)) if number > most => Err(format!("{number} {what}, at most {most} are allowed")),
        _ => Ok(()),
    }
}

fn less(left: &Number, right: &Number) -> bool {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left < right,
        _ => left.as_f64() < right.as_f64(),
    }
}

/// JSON without white space, keys sorted.
fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            out.push('{');
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(&Value::String(name.clone()), out);
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        // Writing to a string does not fail.
        scalar => drop(write!(out, "{scalar}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{
        "type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 3},
            "ratio": {"type": "number", "minimum": 0, "maximum": 1.5},
            "count": {"type": "integer", "minimum": 1, "maximum": 18446744073709551615, "default": 3},
            "order": {"enum": ["up", "down"], "default": "up"},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "default": true}}, "default": {}}
        }
    }"#;

    fn check(parameters: &str) -> Result<String, String> {
        let limits = Limits::default();
        let schema = Schema::parse(SCHEMA, &limits).unwrap();
        validate(Some(&schema), parameters, &limits).map_err(|error| error.to_string())
    }

    fn refusal(schema: &str) -> String {
        Schema::parse(schema, &Limits::default()).unwrap_err().to_string()
    }

    // P16: one form, with defaults.
    #[test]
    fn parameters_come_out_sorted_and_filled_in() {
        assert_eq!(
            check(r#" {"name": "é\u0041", "list": [2.0, 1]} "#).unwrap(),
            r#"{"count":3,"deep":{"flag":true},"list":[2,1],"name":"éA","order":"up"}"#
        );
        assert_eq!(
            check(r#"{"ratio":1,"order":"down","name":"x","deep":{"z":{"b":1,"a":2},"flag":false},"count":18446744073709551615}"#).unwrap(),
            r#"{"count":18446744073709551615,"deep":{"flag":false,"z":{"a":2,"b":1}},"name":"x","order":"down","ratio":1}"#
        );
    }

    #[test]
    fn what_comes_out_is_accepted_unchanged() {
        let once = check(r#"{"name":"x","ratio":0.5,"list":[1]}"#).unwrap();
        assert_eq!(check(&once).unwrap(), once);
    }

    // P16: the parameter, what was expected and what was found.
    #[test]
    fn errors_name_the_place() {
        for (parameters, error) in [
            ("{}", "parameters.name: it is required"),
            (r#"{"name":7}"#, "parameters.name: expected a text, found a whole number"),
            (r#"{"name":""}"#, "parameters.name: 0 characters, at least 1 are needed"),
            (r#"{"name":"abcd"}"#, "parameters.name: 4 characters, at most 3 are allowed"),
            (
                r#"{"name":"x","nmae":1}"#,
                "parameters.nmae: there is no such parameter; there are: count, deep, list, name, order, ratio",
            ),
            (r#"{"name":"x","count":0}"#, "parameters.count: 0 is less than 1"),
            (r#"{"name":"x","count":1.5}"#, "parameters.count: expected a whole number, found a number"),
            (r#"{"name":"x","ratio":1.6}"#, "parameters.ratio: 1.6 is more than 1.5"),
            (r#"{"name":"x","order":"left"}"#, r#"parameters.order: "left" is none of "up", "down""#),
            (r#"{"name":"x","list":[]}"#, "parameters.list: 0 items, at least 1 are needed"),
            (r#"{"name":"x","list":[1,"a"]}"#, "parameters.list[1]: expected a whole number, found a text"),
            (r#"{"name":"x","deep":{"flag":null}}"#, "parameters.deep.flag: expected true or false, found null"),
            ("[]", "parameters: expected an object, found a list"),
        ] {
            assert_eq!(check(parameters).unwrap_err(), error);
        }
        assert!(check("{").unwrap_err().starts_with("parameters: they are not JSON"));
        assert!(check(&format!(r#"{{"name":"{}"}}"#, "x".repeat(20_000))).unwrap_err().contains("16384 are allowed"));
    }

    #[test]
    fn without_a_schema_there_are_no_parameters() {
        let limits = Limits::default();
        assert_eq!(validate(None, " { } ", &limits).unwrap(), "{}");
        assert_eq!(
            validate(None, r#"{"a":1}"#, &limits).unwrap_err().to_string(),
            "parameters: this policy takes no parameters"
        );
    }

    #[test]
    fn schemas_that_make_no_sense_are_refused() {
        for (schema, error) in [
            ("", "schema: it is not JSON: EOF while parsing a value at line 1 column 0"),
            ("[]", "schema: expected an object"),
            ("{}", "schema: its `type` must be `object`"),
            (r#"{"type":"string"}"#, "schema: its `type` must be `object`"),
            (r#"{"type":["object"]}"#, "schema: expected the name of one type as `type`"),
            (r#"{"type":"object","additionalProperties":true}"#, "schema: expected false as `additionalProperties`"),
            (r#"{"type":"object","required":[1]}"#, "schema: expected a list of texts as `required`"),
            (
                r#"{"type":"object","properties":{"a":{"enum":[]}}}"#,
                "schema.properties.a: expected a list of values as `enum`",
            ),
            (
                r#"{"type":"object","properties":{"a":{"minLength":-1}}}"#,
                "schema.properties.a: expected a whole number from 0 as `minLength`",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}"#,
                "schema.properties.a: its own `default` is not valid: default: expected a whole number, found a text",
            ),
        ] {
            assert_eq!(refusal(schema), error);
        }
    }

    #[test]
    fn depth_and_size_are_capped() {
        let nested = |levels: usize| {
            let open = r#"{"type":"object","properties":{"a":"#.repeat(levels - 1);
            format!("{open}{{\"type\":\"object\"}}{}", "}}".repeat(levels - 1))
        };
        assert!(Schema::parse(&nested(8), &Limits::default()).is_ok());
        assert!(refusal(&nested(9)).ends_with("more than 8 levels"));
        assert!(refusal(&" ".repeat(20_000)).contains("16384 are allowed"));
    }
}
