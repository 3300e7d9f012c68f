//! Parameters that a schema accepts, to examine a policy with: what it requires, the values of enumerations, and bounds.
//!
//! A schema is hostile input: every list of values and every value has a bound, and what is returned was checked against the schema.

use serde_json::{Map, Number, Value};

use super::{Kind, Schema, canonical, validate};
use crate::{limits::Limits, text::short};

/// Values that are tried of one part of a schema.
const VALUES: usize = 32;

/// Texts, numbers and lists in one value. Parameters of 16 KiB have fewer.
const PARTS: usize = 4_096;

/// Items of a list that has no smaller limit, and characters of a text that has none.
const LONG: u64 = 256;

/// Bytes of names of parameters in a text.
const NAMES: usize = 128;

/// Texts that mean something in the example groups of `tanist_core::examples`: a member and a zone.
const WORDS: [&str; 2] = ["db-1", "zone-a"];

/// Sets of parameters, each in the form that a policy gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Samples {
    /// The first has what the schema requires and its defaults; each of the others changes one parameter. Empty: none was found.
    pub(crate) sets: Vec<String>,
    /// Whether the first is what a group gets that gives no parameters.
    pub(crate) is_default: bool,
    /// What was left out, in words.
    pub(crate) left_out: Vec<String>,
}

/// At most so many sets of parameters that the schema accepts.
pub(crate) fn samples(schema: Option<&Schema>, limits: &Limits, most: usize) -> Samples {
    let by_default = validate(schema, "{}", limits).ok();
    let is_default = by_default.is_some();
    let mut samples = Samples { sets: Vec::new(), is_default, left_out: Vec::new() };
    let Some(schema) = schema else {
        samples.sets.extend(by_default);
        return samples;
    };
    let base = if is_default { Some(Map::new()) } else { schema.required_fields() };
    let accepted = |fields: Map<String, Value>| validate(Some(schema), &canonical(&Value::Object(fields)), limits).ok();
    let Some((base, first)) = base.and_then(|base| Some((base.clone(), accepted(base)?))) else {
        samples.left_out.push("anything: no parameters were found that its schema accepts".to_owned());
        return samples;
    };
    samples.sets.push(first);
    let (mut beyond, mut without) = (0_usize, Vec::new());
    for (name, property) in &schema.properties {
        let values = property.values();
        if values.is_empty() {
            without.push(name.as_str());
        }
        for value in values {
            let mut fields = base.clone();
            fields.insert(name.clone(), value);
            match accepted(fields) {
                Some(set) if samples.sets.contains(&set) => {}
                Some(_) if samples.sets.len() >= most.max(1) => beyond += 1,
                Some(set) => samples.sets.push(set),
                None => {}
            }
        }
    }
    if !without.is_empty() {
        let names = short(&without.join(", "), NAMES);
        samples.left_out.push(format!("parameters for which no value was found that its schema accepts: {names}"));
    }
    if beyond > 0 {
        samples.left_out.push(format!("{beyond} more values of its parameters"));
    }
    samples
}

impl Schema {
    /// Values that this schema accepts, its default first.
    fn values(&self) -> Vec<Value> {
        let mut values: Vec<Value> = self.default.iter().cloned().collect();
        match (&self.one_of, self.kind) {
            (Some(listed), _) => values.extend(listed.iter().cloned()),
            (None, Some(kind)) => values.extend(self.values_of(kind)),
            (None, None) => values.push(WORDS[0].into()),
        }
        let mut accepted = Vec::new();
        for value in values {
            if let Ok(value) = self.check(&value, "")
                && !accepted.contains(&value)
            {
                accepted.push(value);
            }
        }
        accepted.truncate(VALUES);
        accepted
    }

    fn values_of(&self, kind: Kind) -> Vec<Value> {
        match kind {
            Kind::Null => vec![Value::Null],
            Kind::Boolean => vec![false.into(), true.into()],
            Kind::Integer | Kind::Number => {
                let bounds = [&self.minimum, &self.maximum].into_iter().flatten().cloned();
                let usual = [Number::from(0), Number::from(1)];
                let fraction = Number::from_f64(0.5);
                bounds.chain(usual).chain(fraction).map(Value::Number).collect()
            }
            Kind::String => {
                let (least, most) = self.length;
                let bounds = [least, most.filter(|most| *most <= LONG)].into_iter().flatten();
                // Two bytes for each character: a policy that counts bytes where the schema counts characters is found.
                let long =
                    bounds.filter_map(|length| Some("é".repeat(usize::try_from(length.min(PARTS as u64)).ok()?)));
                WORDS.into_iter().map(str::to_owned).chain(long).map(Value::String).collect()
            }
            Kind::Array => self.lists(),
            Kind::Object => self.objects(),
        }
    }

    /// The shortest list, one of one item, and the longest.
    fn lists(&self) -> Vec<Value> {
        let (least, most) = self.count;
        let items = self.items.as_ref().map_or_else(|| vec![WORDS[0].into()], |items| items.values());
        let lengths = [least.unwrap_or(0), 1, most.map_or(1, |most| most.min(LONG))];
        lengths.into_iter().filter_map(|length| list(&items, usize::try_from(length).ok()?)).collect()
    }

    /// What is required, and the same with one property changed.
    fn objects(&self) -> Vec<Value> {
        let Some(base) = self.required_fields() else { return Vec::new() };
        let mut objects = vec![base.clone()];
        for (name, property) in &self.properties {
            for value in property.values() {
                let mut changed = base.clone();
                changed.insert(name.clone(), value);
                objects.push(changed);
            }
            if objects.len() >= VALUES {
                break;
            }
        }
        objects.into_iter().map(Value::Object).collect()
    }

    /// The first value of each required property that has no default. `None`: there is no value for one of them.
    fn required_fields(&self) -> Option<Map<String, Value>> {
        let mut fields = Map::new();
        for name in &self.required {
            let value = match self.properties.get(name) {
                Some(property) if property.default.is_some() => continue,
                Some(property) => property.values().into_iter().next()?,
                None => WORDS[0].into(),
            };
            fields.insert(name.clone(), value);
        }
        (weight(&Value::Object(fields.clone())) <= PARTS).then_some(fields)
    }
}

/// A list of that many items, the given ones in turn. `None`: there are none to take, or the list would be too large.
fn list(items: &[Value], length: usize) -> Option<Value> {
    let heaviest = items.iter().map(weight).max().unwrap_or(0);
    if (items.is_empty() && length > 0) || heaviest.saturating_mul(length) > PARTS {
        return None;
    }
    Some(Value::Array(items.iter().cycle().take(length).cloned().collect()))
}

/// The number of values inside of a value, itself included.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(weight).fold(1, usize::saturating_add),
        Value::Object(fields) => fields.values().map(weight).fold(1, usize::saturating_add),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &str) -> Samples {
        let limits = Limits::default();
        let schema = Schema::parse(schema, &limits).unwrap();
        let samples = samples(Some(&schema), &limits, 32);
        for set in &samples.sets {
            assert_eq!(
                validate(Some(&schema), set, &limits).as_ref(),
                Ok(set),
                "each is valid, and in the form that a policy gets"
            );
        }
        samples
    }

    fn properties(properties: &str, required: &str) -> Samples {
        of(&format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#))
    }

    #[test]
    fn a_policy_without_a_schema_has_no_parameters() {
        let none = samples(None, &Limits::default(), 32);
        assert_eq!((none.sets, none.is_default, none.left_out), (vec!["{}".to_owned()], true, vec![]));
    }

    // P39: which parameters are tried.
    #[test]
    fn defaults_come_first_then_each_value_and_bound() {
        let found = properties(
            r#""a":{"type":"integer","minimum":2,"maximum":9,"default":5},"b":{"enum":["x","y"],"default":"x"},"c":{"type":"boolean"}"#,
            "",
        );
        assert!(found.is_default && found.left_out.is_empty());
        assert_eq!(
            found.sets,
            [
                r#"{"a":5,"b":"x"}"#,
                r#"{"a":2,"b":"x"}"#,
                r#"{"a":9,"b":"x"}"#,
                r#"{"a":5,"b":"y"}"#,
                r#"{"a":5,"b":"x","c":false}"#,
                r#"{"a":5,"b":"x","c":true}"#
            ]
        );
    }

    #[test]
    fn what_is_required_gets_a_value() {
        let found =
            properties(r#""member":{"type":"string","minLength":1},"n":{"type":"number"}"#, r#""member","other""#);
        assert!(!found.is_default);
        assert_eq!(found.sets[0], r#"{"member":"db-1","other":"db-1"}"#);
        assert!(found.sets.contains(&r#"{"member":"zone-a","other":"db-1"}"#.to_owned()), "{found:?}");
        assert!(found.sets.contains(&r#"{"member":"db-1","n":0.5,"other":"db-1"}"#.to_owned()), "{found:?}");
        let deep = properties(
            r#""deep":{"type":"object","required":["list"],"properties":{"list":{"type":"array","minItems":2,"items":{"type":"string"}}}}"#,
            r#""deep""#,
        );
        assert_eq!(deep.sets[0], r#"{"deep":{"list":["db-1","zone-a"]}}"#);
    }

    #[test]
    fn texts_and_lists_are_as_short_and_as_long_as_allowed() {
        let found = properties(r#""t":{"type":"string","minLength":3,"maxLength":4}"#, "");
        assert_eq!(found.sets, ["{}", r#"{"t":"db-1"}"#, r#"{"t":"ééé"}"#, r#"{"t":"éééé"}"#]);
        let found = properties(r#""l":{"type":"array","minItems":2,"maxItems":3,"items":{"type":"boolean"}}"#, "");
        assert_eq!(found.sets, ["{}", r#"{"l":[false,true]}"#, r#"{"l":[false,true,false]}"#]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let none = properties(r#""a":{"type":"integer","minimum":3,"maximum":2}"#, r#""a""#);
        assert!(none.sets.is_empty() && none.left_out[0].contains("no parameters were found"), "{none:?}");
        let one = properties(r#""a":{"type":"integer","minimum":3,"maximum":2}"#, "");
        assert_eq!(one.left_out, ["parameters for which no value was found that its schema accepts: a"]);
        let words: Vec<_> = (0..40).map(|word| word.to_string()).collect();
        let many = properties(&format!(r#""a":{{"enum":[{}]}},"b":{{"type":"boolean"}}"#, words.join(",")), "");
        assert_eq!((many.sets.len(), many.left_out.len()), (32, 1));
        assert!(many.left_out[0].contains("3 more values"), "{many:?}");
    }

    #[test]
    fn nested_lists_stay_small() {
        let mut schema = r#"{"type":"string"}"#.to_owned();
        for _ in 0..6 {
            schema = format!(r#"{{"type":"array","minItems":100,"maxItems":200,"items":{schema}}}"#);
        }
        let found = properties(&format!(r#""a":{schema}"#), "");
        assert_eq!((found.sets, found.left_out.len()), (vec!["{}".to_owned()], 1));
    }
}
