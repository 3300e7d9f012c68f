//! Makes policies: components are compiled in a process of their own ([`super::compile`]), scripts are given to the interpreter ([`super::scripts`]).
use super::Error;
use super::compile::{self, ChildLimits, CompileError};
use super::examined::Examined;
use super::scripts::Scripts;
use super::source::{Content, Kind};
use super::store::Compiler;
use super::store::queue::{AT_ONCE, Failure};
use futures::FutureExt;
use futures::future::BoxFuture;
use tanist_cluster::api_error;
use tanist_engine::{Engine, LoadError, Policy};

/// Makes policies for this engine.
pub struct InChild {
    engine: Engine,
    scripts: Scripts,
}

impl InChild {
    /// Policies that run in that engine; scripts have an engine of their own.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        InChild { engine, scripts: Scripts::default() }
    }
}

impl Compiler for InChild {
    fn compile(&self, content: Content) -> BoxFuture<'static, Result<Examined, Failure>> {
        if content.kind == Kind::Script {
            let scripts = self.scripts.clone();
            return async move { Examined::examine(scripts.policy(content).await?).await }.boxed();
        }
        let engine = self.engine.clone();
        async move {
            // Here and not in a blocking task: the kernel ends the process together with the thread that started it.
            let limits = ChildLimits::here(AT_ONCE);
            let compiled = compile::in_child(content.bytes.clone(), limits).await;
            let compiled = compiled.map_err(|error| not_compiled(&error))?;
            // It is started once to be asked for its description, for at most the wall limit of a question.
            let loading =
                tokio::task::spawn_blocking(move || Policy::from_compiled(&engine, "", &content.bytes, &compiled));
            Examined::examine(adopted(loading.await)?).await
        }
        .boxed()
    }
}

/// What did not compile, for the store: only the component's own fault is remembered for long.
fn not_compiled(error: &CompileError) -> Failure {
    Failure { is_load: !error.is_the_components(), why: error.to_string() }
}

/// What came out of the task that takes over what was compiled.
pub(super) fn adopted(loaded: Result<Result<Policy, LoadError>, tokio::task::JoinError>) -> Result<Policy, Failure> {
    match loaded {
        Ok(Ok(policy)) => Ok(policy),
        Ok(Err(error)) => Err(Failure { is_load: error.is_load(), why: api_error::chain(&error) }),
        Err(_) => Err(Failure { why: Error::Compile.to_string(), is_load: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tanist_engine::Stage;

    // H19: a machine that was busy is not the component's fault: it is tried again soon, and not after five minutes.
    #[test]
    fn only_the_components_own_fault_is_remembered_for_long() {
        let refused = CompileError::Refused { stage: Stage::Type, kind: "type".into(), message: "its election".into() };
        for (error, is_load) in [
            (refused, false),
            (CompileError::Cpu(Duration::from_secs(10)), false),
            (CompileError::Crashed("signal 11".into()), false),
            (CompileError::Wall(Duration::from_secs(30)), true),
            (CompileError::Run("no process".into()), true),
        ] {
            assert_eq!(not_compiled(&error), Failure { why: error.to_string(), is_load });
        }
    }
}
