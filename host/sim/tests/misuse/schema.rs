//! The definition of the resource as the API server reads it: what it drops, what it fills in, and what it refuses.
use super::rules;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tanist_api::{ReplicaGroup, validate};

/// How the text begins that says: the schema admits it, and the operator cannot read it. One such group hides all others from the operator.
pub const UNREADABLE: &str = "admitted, but the operator cannot read it";

/// One step to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field of that name.
    Name(String),
    /// The first item of a list.
    First,
}

/// A field of the resource.
#[derive(Debug, Clone)]
pub struct Field<'d> {
    /// Where it is.
    pub path: Vec<Step>,
    /// What the schema says of it.
    pub schema: &'d Value,
}

impl Field<'_> {
    /// Its place as users write it.
    pub fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.path {
            match step {
                Step::Name(word) if name.is_empty() => name.push_str(word),
                Step::Name(word) => name = format!("{name}.{word}"),
                Step::First => name.push_str("[0]"),
            }
        }
        name
    }
}

/// The value of a field.
pub fn at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Name(name) => value.get(name),
        Step::First => value.get(0),
    })
}

/// Gives a field a value; what is above it is there afterwards. `None`: it is removed.
pub fn set(value: &mut Value, path: &[Step], new: Option<Value>) {
    let Some((step, rest)) = path.split_first() else {
        *value = new.unwrap_or(Value::Null);
        return;
    };
    let is_last = rest.is_empty();
    match step {
        Step::Name(name) => {
            if !value.is_object() {
                *value = json!({});
            }
            let object = value.as_object_mut().unwrap();
            match new {
                None if is_last => drop(object.remove(name)),
                new => set(object.entry(name.clone()).or_insert(Value::Null), rest, new),
            }
        }
        Step::First => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([null]);
            }
            let list = value.as_array_mut().unwrap();
            match new {
                None if is_last => drop(list.remove(0)),
                new => set(&mut list[0], rest, new),
            }
        }
    }
}

/// The definition in `crds/`.
pub struct Definition(Value);

impl Definition {
    pub fn read() -> Self {
        let text = include_str!("../../../../crds/replicagroups.tanist.dev.yaml");
        let whole: Value = serde_saphyr::from_str(text).unwrap();
        Definition(whole.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone())
    }

    /// All fields of the spec.
    pub fn fields(&self) -> Vec<Field<'_>> {
        let mut found = Vec::new();
        walk(&self.0["properties"]["spec"], &mut vec![Step::Name("spec".into())], &mut found);
        found
    }

    /// The messages of all rules, and where each is.
    pub fn messages(&self) -> Vec<(String, String)> {
        let mut all = vec![(String::new(), &self.0)];
        all.extend(self.fields().iter().map(|field| (field.name(), field.schema)));
        let rules = all.into_iter().flat_map(|(at, schema)| rules_of(schema).map(move |rule| (at.clone(), rule)));
        rules.map(|(at, rule)| (at, rule["message"].as_str().unwrap().to_owned())).collect()
    }

    /// The group as it is stored and read, or why it is refused. `old`: what was stored before.
    pub fn admit(&self, group: &Value, old: Option<&Value>) -> Result<ReplicaGroup, String> {
        let mut stored = group.clone();
        let mut refusals = Vec::new();
        let spec = &self.0["properties"]["spec"];
        check(spec, "spec", &mut stored["spec"], &mut refusals);
        if refusals.is_empty() {
            judge(&self.0, "", &stored, old, &mut refusals);
        }
        if let Some(why) = refusals.into_iter().next() {
            return Err(why);
        }
        let read: ReplicaGroup = serde_json::from_value(stored).map_err(|why| format!("{UNREADABLE}: {why}"))?;
        let mut whole = read.clone();
        (whole.metadata.namespace, whole.metadata.uid) = (Some("shop".into()), Some("u".into()));
        validate::group(&whole, "cluster.local").map_err(|why| why.to_string())?;
        Ok(read)
    }
}

fn walk<'d>(schema: &'d Value, path: &mut Vec<Step>, found: &mut Vec<Field<'d>>) {
    found.push(Field { path: path.clone(), schema });
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let below = properties.map(|(name, schema)| (Step::Name(name.clone()), schema));
    let items = schema.get("items").map(|items| (Step::First, items));
    let others = schema.get("additionalProperties").filter(|other| other.is_object());
    let others = others.map(|other| (Step::Name("example.org/key".into()), other));
    for (step, schema) in below.chain(items).chain(others) {
        path.push(step);
        walk(schema, path, found);
        path.pop();
    }
}

fn rules_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
}

/// Prunes, fills in defaults and checks, as the API server does.
fn check(schema: &Value, path: &str, value: &mut Value, refusals: &mut Vec<String>) {
    let mut refuse = |why: String| refusals.push(format!("{path}: {why}"));
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let is_either = schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let fits = match value {
        Value::String(_) => kind == "string" || is_either,
        Value::Number(number) => kind == "number" || (kind == "integer" || is_either) && !number.is_f64(),
        Value::Bool(_) => kind == "boolean",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
        Value::Null => false,
    };
    if !fits {
        return refuse(format!("must be of type {}", if is_either { "integer or string" } else { kind }));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        return refuse(format!("unsupported value; supported are {words:?}"));
    }
    match value {
        Value::String(text) => {
            let length = text.chars().count() as u64;
            if bound("minLength").is_some_and(|least| length < least)
                || bound("maxLength").is_some_and(|most| length > most)
            {
                refuse(format!("has {length} characters"));
            }
            let pattern = schema.get("pattern").and_then(Value::as_str).map(|pattern| Regex::new(pattern).unwrap());
            if pattern.is_some_and(|pattern| !pattern.is_match(text)) {
                refuse("does not match the pattern".into());
            }
        }
        Value::Number(number) => {
            let number =
                i128::from(number.as_i64().unwrap_or(i64::MAX)).max(number.as_u64().map_or(i128::MIN, i128::from));
            let limit = |name| schema.get(name).and_then(Value::as_i64).map(i128::from);
            let most =
                if schema.get("format") == Some(&json!("int32")) { i128::from(i32::MAX) } else { i128::from(i64::MAX) };
            if limit("minimum").is_some_and(|least| number < least)
                || limit("maximum").unwrap_or(most).min(most) < number
            {
                refuse(format!("{number} is out of range"));
            }
        }
        Value::Array(list) => {
            let length = list.len() as u64;
            if bound("minItems").is_some_and(|least| length < least)
                || bound("maxItems").is_some_and(|most| length > most)
            {
                refuse(format!("has {length} items"));
            }
            let key = |item: &Value| match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => Some(item.to_string()),
                Some("map") => Some(item.get("name").unwrap_or(&Value::Null).to_string()),
                _ => None,
            };
            let keys: Vec<String> = list.iter().filter_map(key).collect();
            if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
                refuse("duplicate value".into());
            }
            let items = schema.get("items").cloned().unwrap_or_default();
            list.iter_mut().enumerate().for_each(|(n, item)| check(&items, &format!("{path}[{n}]"), item, refusals));
        }
        Value::Object(_) => check_object(schema, path, value, refusals),
        Value::Bool(_) | Value::Null => {}
    }
}

fn check_object(schema: &Value, path: &str, value: &mut Value, refusals: &mut Vec<String>) {
    let Some(object) = value.as_object_mut() else { return };
    let empty = serde_json::Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let others = schema.get("additionalProperties").filter(|other| other.is_object());
    let preserves = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    object.retain(|name, _| preserves || others.is_some() || properties.contains_key(name));
    // No field may be null: a null is a missing field.
    object.retain(|name, value| !value.is_null() || !properties.contains_key(name));
    for (name, field) in properties {
        if let Some(usual) = field.get("default") {
            object.entry(name.clone()).or_insert_with(|| usual.clone());
        }
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            refusals.push(format!("{path}.{name}: Required value"));
        }
    }
    if schema.get("maxProperties").and_then(Value::as_u64).is_some_and(|most| object.len() as u64 > most) {
        refusals.push(format!("{path}: has too many entries"));
    }
    for (name, value) in object.iter_mut() {
        if let Some(field) = properties.get(name).or(others) {
            check(field, &format!("{path}.{name}"), value, refusals);
        }
    }
}

/// Applies the rules of a value and of everything in it.
fn judge(schema: &Value, path: &str, value: &Value, old: Option<&Value>, refusals: &mut Vec<String>) {
    for rule in rules_of(schema) {
        let cel = rule["rule"].as_str().unwrap();
        if !rules::holds(cel, value, old) {
            let point_to = rule.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
            refusals.push(format!("{path}{point_to}: {}", rule["message"].as_str().unwrap()));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, schema) in properties {
        if let Some(value) = value.get(name) {
            judge(schema, &format!("{path}.{name}"), value, old.and_then(|old| old.get(name)), refusals);
        }
    }
    // Items of plain lists have no former self.
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        list.iter().enumerate().for_each(|(n, item)| judge(items, &format!("{path}[{n}]"), item, None, refusals));
    }
}
