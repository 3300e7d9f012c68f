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

// P44: a new script is complete: its cases pass, and no word of the template is left.
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

// P44: a new crate needs the SDK alone, from a folder or by its URL.
#[test]
fn a_new_component_names_its_sdk_and_belongs_to_no_workspace() {
    let place = folder(&[]);
    let dir = place.path().join("my-zone");
    create(&dir, &Language::Rust(sdk())).unwrap();
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-zone\"") && manifest.contains("\n[workspace]\n"), "{manifest}");
    assert!(manifest.contains("tanist-policy = { path = \"/") && manifest.contains("/policies/sdk\" }"), "{manifest}");
    assert!(manifest.contains("/policies/sdk\", features = [\"testing\"] }"), "{manifest}");
    assert!(fs::read_to_string(dir.join("cases.yaml")).unwrap().contains("policy: policy.wasm"));
    let with = |name: &str, sdk: Sdk| {
        let other = place.path().join(name);
        create(&other, &Language::Rust(sdk)).unwrap();
        fs::read_to_string(other.join("Cargo.toml")).unwrap()
    };
    let url = "https://example.org/tanist.git";
    let newest = with("newest", Sdk::find(url).unwrap());
    assert!(newest.contains("tanist-policy = { git = \"https://example.org/tanist.git\" }"), "{newest}");
    let released = with("released", Sdk::of_release(url, "1.2.3").unwrap());
    assert!(
        released.contains("tanist-policy = { git = \"https://example.org/tanist.git\", tag = \"v1.2.3\" }"),
        "{released}"
    );
    assert_eq!(Sdk::of_release("", "1.2.3"), None, "without a public repository a user has to say where the SDK is");
}

/// P44: what the manual shows is what the project begins with, which a test of the operator builds.
#[test]
fn the_manual_shows_the_policy_of_a_new_project() {
    let manual = include_str!("../../../../policies/README.md");
    let shown: Vec<_> = manual.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(shown, [include_str!("../../templates/rust/src/lib.rs")]);
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
