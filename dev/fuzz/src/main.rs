//! libFuzzer with one of the targets, which `TANIST_FUZZ` names: `dev/fuzz/run` builds and starts it.
#![cfg_attr(tanist_fuzz, no_main, allow(unsafe_code, missing_docs, reason = "libFuzzer's macro"))]

#[cfg(tanist_fuzz)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    use std::sync::OnceLock;
    static TARGET: OnceLock<&tanist_fuzz::Target> = OnceLock::new();
    let chosen = || std::env::var("TANIST_FUZZ").ok().and_then(|name| tanist_fuzz::target(&name));
    let target = TARGET.get_or_init(|| {
        chosen().unwrap_or_else(|| unreachable!("TANIST_FUZZ has to name a target: see dev/fuzz/src/lib.rs"))
    });
    (target.run)(bytes);
});

#[cfg(not(tanist_fuzz))]
fn main() {
    let names: Vec<&str> = tanist_fuzz::TARGETS.iter().map(|target| target.name).collect();
    println!("dev/fuzz/run TARGET [SECONDS] searches with coverage; the targets: {}", names.join(", "));
}
