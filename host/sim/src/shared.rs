//! An object of the simulated API server. Readers share it; who changes it while somebody still reads it gets a copy.
use kube::Resource;
use kube::core::ObjectMeta;
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// An object that readers share.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// The object as it is now, for a reader: later changes do not reach it.
    #[must_use]
    pub fn as_it_is(&self) -> Arc<T> {
        self.0.clone()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> From<T> for Shared<T> {
    fn from(object: T) -> Self {
        Shared(Arc::new(object))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Resource + Clone> Resource for Shared<T> {
    type DynamicType = T::DynamicType;
    type Scope = T::Scope;

    fn kind(known: &T::DynamicType) -> Cow<'_, str> {
        T::kind(known)
    }

    fn group(known: &T::DynamicType) -> Cow<'_, str> {
        T::group(known)
    }

    fn version(known: &T::DynamicType) -> Cow<'_, str> {
        T::version(known)
    }

    fn plural(known: &T::DynamicType) -> Cow<'_, str> {
        T::plural(known)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        (**self).meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;

    #[test]
    fn a_reader_does_not_see_later_changes() {
        let mut object = Shared::from(vec![1]);
        let read = object.as_it_is();
        object.push(2);
        assert_eq!((&*read, &*object), (&vec![1], &vec![1, 2]));
    }
}
