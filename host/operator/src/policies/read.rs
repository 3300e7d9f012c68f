//! Reads sources: the cache of `ConfigMap`s, and files.
use super::Error;
use super::builtin;
use super::room::LEFT_OUT;
use super::source::{Content, Kind, Origin};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use std::io;
use std::path::Path;
use std::time::Duration;
use tanist_engine::LoadError;

/// How long a policy file may take to be read: its directory may be a volume whose server is gone.
pub const READ: Duration = Duration::from_secs(5);

/// What the name of a script's key or file ends with.
const SCRIPT: &str = ".star";

/// The content of a key of a `ConfigMap`. `limit`: bytes of a policy; a larger one is refused before anything is done with it.
///
/// # Errors
/// When there is no such `ConfigMap` or key, or its content is no policy.
pub fn config_map(store: Option<&Store<ConfigMap>>, origin: &Origin, limit: usize) -> Result<Content, Error> {
    let Origin::ConfigMap { namespace, name, key } = origin else { return Err(Error::NameNone) };
    let map = store.and_then(|store| store.get(&ObjectRef::new(name).within(namespace)));
    let map = map.ok_or_else(|| Error::FindConfigMap(name.clone()))?;
    content_of(&map, key, limit)
}

/// The same of a `ConfigMap` that was read already.
///
/// # Errors
/// When it has no such key, or its content is no policy.
pub fn content_of(map: &ConfigMap, key: &str, limit: usize) -> Result<Content, Error> {
    let name = map.name_any();
    if map.annotations().contains_key(LEFT_OUT) {
        return Err(Error::NoRoom(name));
    }
    if let Some(bytes) = map.binary_data.as_ref().and_then(|data| data.get(key)) {
        let kind = if key.ends_with(SCRIPT) { Kind::Script } else { Kind::Component };
        return bounded(kind, key, bytes.0.clone(), limit);
    }
    match map.data.as_ref().and_then(|data| data.get(key)) {
        Some(text) if key.ends_with(SCRIPT) => bounded(Kind::Script, key, text.clone().into_bytes(), limit),
        Some(_) => Err(Error::NameScript(format!("{name}/{key}"))),
        None => Err(Error::FindKey(name, key.to_owned())),
    }
}

/// The content of a script that is embedded.
///
/// # Errors
/// When there is none of that name.
pub fn builtin_script(name: &str) -> Result<Content, Error> {
    let script = builtin::script(name).ok_or_else(|| Error::FindBuiltin(name.to_owned(), builtin::names()))?;
    Ok(Content::new(Kind::Script, script.file, script.text.as_bytes()))
}

/// The content of a file. It blocks for as long as the directory's volume does.
///
/// # Errors
/// When it cannot be read, or is larger than the limit.
pub fn file(directory: &Path, name: &str, limit: usize) -> Result<Content, Error> {
    let kind = if name.ends_with(SCRIPT) { Kind::Script } else { Kind::Component };
    let fails = |error: io::Error| Error::ReadFile(name.to_owned(), error);
    let file = std::fs::File::open(directory.join(name)).map_err(fails)?;
    let mut bytes = Vec::new();
    // One byte more than allowed, which is enough to refuse it.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    io::Read::read_to_end(&mut io::Read::take(file, most), &mut bytes).map_err(fails)?;
    bounded(kind, name, bytes, limit)
}

/// The error for a file whose volume does not answer.
pub fn silent(name: &str) -> Error {
    Error::ReadFile(name.to_owned(), io::ErrorKind::TimedOut.into())
}

fn bounded(kind: Kind, file: &str, bytes: Vec<u8>, limit: usize) -> Result<Content, Error> {
    let size = bytes.len();
    if size > limit { Err(Error::Load(LoadError::Size { size, limit })) } else { Ok(Content::new(kind, file, bytes)) }
}

#[cfg(test)]
mod tests {
    use super::super::source::Origin;
    use super::{ConfigMap, content_of};
    use kube::ResourceExt;
    use serde_json::{Value, json};
    use tanist_api::spec::Policy;

    fn map(value: Value) -> ConfigMap {
        serde_json::from_value(value).unwrap()
    }

    // P10: each says what to do, and where.
    #[test]
    fn a_key_that_is_missing_or_of_another_kind_is_refused_with_what_helps() {
        let map =
            map(json!({"metadata": {"name": "rules"}, "data": {"a.star": "x = 1", "note": "hello", "b.wasm": "text"}}));
        let refused =
            |key: &str, limit: usize| content_of(&map, key, limit).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(refused("a.star", 5), Ok(()));
        let none = "ConfigMap rules has no key c.star in binaryData (components) or data (scripts)";
        assert_eq!(refused("c.star", 5), Err(none.to_owned()));
        for key in ["note", "b.wasm"] {
            let text = "is text: put a built component into binaryData; the key of a script ends with .star";
            assert_eq!(refused(key, 5), Err(format!("rules/{key} {text}")));
        }
        assert!(refused("a.star", 4).unwrap_err().contains('5'));
        let mut left = map;
        left.annotations_mut().insert(super::LEFT_OUT.into(), "9".into());
        let said = content_of(&left, "a.star", 5).map(|_| ()).unwrap_err().to_string();
        assert!(said.starts_with("ConfigMap rules is left out") && said.contains("32 MiB"), "{said}");
    }

    // P2: the schema has the field, and this version says that it cannot use it.
    #[test]
    fn a_policy_from_an_image_is_refused_with_what_can_be_used_instead() {
        let spec: Policy = serde_json::from_value(json!({"image": "example.org/policy:1"})).unwrap();
        let said = Origin::of("ns", &spec).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            said,
            "policies from images are not supported by this version; use builtin, configMap or file (example.org/policy:1)"
        );
        let two: Policy = serde_json::from_value(json!({"builtin": "sequence", "file": "mine.wasm"})).unwrap();
        let said = Origin::of("ns", &two).map(|_| ()).unwrap_err().to_string();
        assert_eq!(said, "a policy names exactly one of builtin, configMap, file and image");
    }
}
