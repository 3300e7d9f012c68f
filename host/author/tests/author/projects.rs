//! What `new` makes works outside of any checkout.

use std::{fs, path::Path};

use tanist_author::{
    project::{Language, Sdk, create},
    suite::{Options, test},
};

use super::{folder, tools};

fn sdk() -> Sdk {
    Sdk::find(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

#[test]
fn a_new_script_passes_its_cases() {
    let place = folder(&[]);
    let dir = place.path().join("my-zone");
    let files = create(&dir, &Language::Starlark).unwrap();
    assert_eq!(files, ["policy.star", "cases.yaml", "README.md", ".github/workflows/policy.yaml"]);
    let tested = test(&tools(), &dir, &Options::default()).unwrap();
    assert_eq!(tested.counts(), (3, 3), "{tested:?}");
    let ran = tested.files[0].cases[0].ran.as_ref().unwrap();
    assert_eq!((ran.layers[0].policy.name.as_str(), ran.layers[0].policy.version.as_str()), ("my-zone", "0.1.0"));
    for file in files {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let left = ["NAME", "POLICY", "BUILD", "SDK"]
            .iter()
            .find(|word| text.contains(**word) && !text.contains("CARGO_PKG_NAME"));
        assert!(left.is_none(), "{file}: {left:?}\n{text}");
    }
}

#[test]
fn a_new_component_names_its_sdk_and_belongs_to_no_workspace() {
    let place = folder(&[]);
    let dir = place.path().join("my-zone");
    create(&dir, &Language::Rust(sdk())).unwrap();
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-zone\"") && manifest.contains("\n[workspace]\n"), "{manifest}");
    assert!(manifest.contains("tanist-policy = { path = \"/") && manifest.contains("/policies/sdk\" }"), "{manifest}");
    assert!(fs::read_to_string(dir.join("cases.yaml")).unwrap().contains("policy: policy.wasm"));
    let other = place.path().join("other");
    create(&other, &Language::Rust(Sdk::find("https://example.org/tanist.git").unwrap())).unwrap();
    assert!(
        fs::read_to_string(other.join("Cargo.toml"))
            .unwrap()
            .contains("tanist-policy = { git = \"https://example.org/tanist.git\" }")
    );
}

#[test]
fn nothing_is_written_where_something_is_or_under_a_name_that_no_policy_can_have() {
    let place = folder(&[("full/x", "")]);
    let refused = |dir: &Path| create(dir, &Language::Starlark).unwrap_err().to_string();
    assert!(refused(&place.path().join("full")).contains("is not empty"));
    for name in ["My-Zone", "9lives", "a_b", "ends-", "a b"] {
        let dir = place.path().join(name);
        assert!(refused(&dir).contains("cannot be one"), "{name}");
        assert!(!dir.exists());
    }
    assert!(Sdk::find("/nowhere").unwrap_err().to_string().contains("is not the SDK"));
}
