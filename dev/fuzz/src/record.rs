//! The record in the status of a group.
use crate::sentence::{self, ESCAPED};
use serde_json::Value;
use tanist_core::record::Record;

/// Bytes of what is said about a record that cannot be read, without what it quotes.
const SAID: usize = 512;

/// The bytes as the JSON of a record.
pub fn run(bytes: &[u8]) {
    let Ok(raw) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut record: Record = match serde_json::from_value(raw.clone()) {
        Ok(record) => record,
        Err(why) => return sentence::check(&sentence::shown(&why.to_string()), SAID + ESCAPED * bytes.len(), bytes),
    };
    let written = written(&record);
    assert_eq!(read(&written).as_ref(), Some(&record), "what was written is not read back");
    assert_eq!(lost(&raw, &written), None, "what was read is not written");
    unknown_fields_block(&written);
    record.clamp(1_795_000_000, 1_794_000_000);
    let clamped = record.clone();
    record.clamp(1_795_000_000, 1_794_000_000);
    assert_eq!(record, clamped, "times that are corrected stay so");
    record.clear_backoff();
    assert_eq!(read(&self::written(&record)), Some(record.clone()));
    drop((record.is_blank(), record.last_led().cloned()));
}

fn written(record: &Record) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

fn read(raw: &Value) -> Option<Record> {
    serde_json::from_value(raw.clone()).ok()
}

/// A field of the first value that the second one lacks; those that mean nothing are left out in writing.
fn lost(from: &Value, to: &Value) -> Option<String> {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else { return None };
    let means = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        _ => true,
    };
    from.iter().find_map(|(name, value)| match to.get(name) {
        None => means(value).then(|| name.clone()),
        Some(other) => lost(value, other).map(|field| format!("{name}.{field}")),
    })
}

/// S37: a field that this version does not know is an error wherever it is, but in a map of names.
fn unknown_fields_block(written: &Value) {
    let mut places = Vec::new();
    objects("", written, &mut places);
    for place in places {
        let mut changed = written.clone();
        if let Some(object) = changed.pointer_mut(&place).and_then(Value::as_object_mut) {
            object.insert("ofALaterVersion".to_owned(), Value::Bool(true));
        }
        assert!(read(&changed).is_none(), "an unknown field at {place:?} does not block");
    }
}

fn objects(at: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            // Names of members are its keys; the value above is none of a member.
            found.push(at.to_owned());
            object.iter().for_each(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                objects(&format!("{at}/{key}"), value, found);
            });
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| objects(&format!("{at}/{index}"), value, found))
        }
        _ => {}
    }
}
