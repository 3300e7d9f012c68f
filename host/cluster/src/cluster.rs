//! What a round needs of a Kubernetes cluster, and all that it can reach of one: live reads, writes with the state that they rest on, executions
//! in members. `observe`, `act` and `report` know nothing else of Kubernetes, so a simulated cluster serves them as well as a real one.
mod error;
#[cfg(feature = "client")]
pub mod kube;
mod object;
mod write;

pub use error::Error;
pub use object::{Found, Kind, Object, Read, Typed, Which};
pub use write::{Fence, Write};

use ::kube::core::DynamicObject;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Event;
use std::sync::Arc;
use std::time::Duration;
use tanist_core::evidence::Ended;

/// A cluster as rounds see it. No method repeats a request that may have had an effect, and none waits for ever: a caller adds a deadline of its own where it needs a shorter one.
pub trait Cluster: Send + Sync {
    /// Reads objects live: an answer is not older than the request.
    ///
    /// Errors: [`Error`]. An object that could not be read must never count as one that is not there.
    fn read(&self, read: Read) -> BoxFuture<'_, Result<Found, Error>>;

    /// Writes once. The result is the object afterwards; absent after a deletion.
    ///
    /// Errors: [`Error`]. A write that was answered with an error of the API server itself had no effect; after any other one that is unknown.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Option<Object>, Error>>;

    /// Executes a program in a container of a member, once.
    fn exec(&self, exec: Exec) -> BoxFuture<'_, Ended>;
}

/// A program that is to be executed in a container of a pod. The name is that of the pod now: the runner compares the UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The name of the container in which the program is executed.
    pub container: String,
    /// Program and arguments; no shell is between.
    pub argv: Vec<String>,
    /// How long it may take; then its outcome is unknown, and it may go on.
    pub deadline: Duration,
}

impl dyn Cluster + '_ {
    /// The object of that name. `None`: there is none.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn get<K: Typed>(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, Error> {
        let found = self.read(named(K::KIND, namespace, name)).await?;
        Ok(all_of_kind(found.objects, K::KIND, K::of)?.pop())
    }

    /// The same without its type.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn get_plain(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<DynamicObject>>, Error> {
        let found = self.read(named(kind, namespace, name)).await?;
        Ok(all_of_kind(found.objects, kind, object::plain)?.pop())
    }

    /// The objects with the label of that group, and the version of the list.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn list<K: Typed>(&self, namespace: &str, group: &str) -> Result<(Vec<Arc<K>>, Option<String>), Error> {
        let found = self.read(of_group(K::KIND, namespace, group)).await?;
        Ok((all_of_kind(found.objects, K::KIND, K::of)?, found.version))
    }

    /// The same without their type.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn list_plain(&self, kind: Kind, namespace: &str, group: &str) -> Result<Vec<Arc<DynamicObject>>, Error> {
        all_of_kind(self.read(of_group(kind, namespace, group)).await?.objects, kind, object::plain)
    }

    /// The events that say why an object could not create others.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn failures(&self, namespace: &str, uid: &str) -> Result<Vec<Arc<Event>>, Error> {
        let which = Which::FailuresOf(uid.to_owned());
        let found = self.read(Read { kind: Kind::Event, namespace: namespace.to_owned(), which }).await?;
        all_of_kind(found.objects, Kind::Event, Event::of)
    }
}

fn named(kind: Kind, namespace: &str, name: &str) -> Read {
    Read { kind, namespace: namespace.to_owned(), which: Which::Named(name.to_owned()) }
}

fn of_group(kind: Kind, namespace: &str, group: &str) -> Read {
    Read { kind, namespace: namespace.to_owned(), which: Which::OfGroup(group.to_owned()) }
}

/// All of them, or an error: an object of another kind must not count as one that is not there.
fn all_of_kind<T>(objects: Vec<Object>, kind: Kind, of: impl Fn(Object) -> Option<T>) -> Result<Vec<T>, Error> {
    let objects: Option<Vec<T>> = objects.into_iter().map(of).collect();
    objects.ok_or_else(|| Error::Unreachable(format!("the answer has another kind of object than {}", kind.word())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::{Node, Pod};

    /// Answers every read with a node.
    struct Nodes;

    impl Cluster for Nodes {
        fn read(&self, _: Read) -> BoxFuture<'_, Result<Found, Error>> {
            let objects = vec![Object::Node(Arc::default())];
            async { Ok(Found { objects, version: None }) }.boxed()
        }

        fn write(&self, _: Write) -> BoxFuture<'_, Result<Option<Object>, Error>> {
            async { Ok(None) }.boxed()
        }

        fn exec(&self, _: Exec) -> BoxFuture<'_, Ended> {
            async { Ended::Unknown("nothing runs here".into()) }.boxed()
        }
    }

    // Only a proven absence counts as one.
    #[tokio::test]
    async fn an_answer_of_another_kind_is_an_error_and_no_absence() {
        let cluster: &dyn Cluster = &Nodes;
        assert!(cluster.get::<Node>("", "n0").await.is_ok_and(|node| node.is_some()));
        assert!(cluster.get::<Pod>("shop", "db-0").await.is_err());
        assert!(cluster.list_plain(Kind::Service, "shop", "db").await.is_err());
    }
}
