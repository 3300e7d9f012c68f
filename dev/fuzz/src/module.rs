//! The bytes of a component, as they come from a ConfigMap or a file.
use crate::sentence;
use std::sync::LazyLock;
use tanist_engine::fuzz::admit;
use tanist_engine::structure::{Caps, examine};
use tanist_engine::{Engine, Limits, LoadError, Policy, SetupError, Stage};

/// Bytes of a refusal: a message of the parser's or the compiler's, and what is said around it.
const SAID: usize = 2 << 10;

/// Bytes of a component that is also compiled, started and compared with the contract: such a small one takes milliseconds, whatever it is.
const COMPILED: usize = 8 << 10;

static ENGINE: LazyLock<Result<Engine, SetupError>> = LazyLock::new(|| Engine::new(Limits::default().unhurried()));

/// The bytes as a component.
pub fn run(bytes: &[u8]) {
    let admitted = admit(bytes);
    if let Err(why) = &admitted {
        sentence::check(&sentence::whole(why), SAID, bytes);
        assert!(why.stage() <= Stage::Structure, "it was refused later: {why}");
    }
    if let Ok(structure) = examine(bytes, &Caps::default()) {
        assert!(admitted.is_err() || structure.functional_imports.is_empty(), "it imports functions");
        let names = structure.imports.len() + structure.exports.len();
        assert!(names <= bytes.len(), "{names} names in {} bytes", bytes.len());
    }
    if bytes.len() > COMPILED {
        return;
    }
    let Ok(engine) = &*ENGINE else { return };
    match (Policy::load(engine, "file/fuzz", bytes), admitted) {
        (Ok(policy), admitted) => {
            assert_eq!(admitted, Ok(()), "the gates refuse what is loaded");
            assert!(policy.points().count() > 0, "it has no point");
        }
        (Err(why), Err(refused)) => assert_eq!(why, refused, "the gates say something else"),
        (Err(why), Ok(())) => later(&why, bytes),
    }
}

/// Why a component that passed the gates is no policy.
fn later(why: &LoadError, bytes: &[u8]) {
    sentence::check(&sentence::whole(why), SAID, bytes);
    assert!(why.stage() > Stage::Size, "it was refused for its form: {why}");
}
