//! Parameters as a type of the policy's own, by serde.

use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, value::MapAccessDeserializer};

use crate::{Fault, Parameters, Snapshot, parameters::Entries};

impl Snapshot {
    /// The parameters as a type with `#[derive(Deserialize)]`. The host has checked them against the schema and filled in its defaults, so this fails only
    /// where the type and the schema differ.
    ///
    /// ```
    /// # use tanist_policy::{Answer, Fault, Snapshot};
    /// #[derive(serde::Deserialize)]
    /// struct Mine {
    ///     zone: String,
    ///     patience: i64,
    /// }
    ///
    /// fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
    ///     let Mine { zone, patience } = snapshot.parameters()?;
    ///     Ok(Answer::wait_until(snapshot.now + patience, format!("for a member in {zone}")))
    /// }
    /// ```
    ///
    /// # Errors
    /// A fault that names the parameter.
    #[track_caller]
    pub fn parameters<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let mut fields = Fields { entries: Parameters::of(self).entries(), name: None, value: "" };
        match T::deserialize(MapAccessDeserializer::new(&mut fields)) {
            Ok(parameters) => Ok(parameters),
            Err(error) => {
                let name = fields.name.map(|name| format!(".{name}")).unwrap_or_default();
                Err(Fault::new(format!("parameters{name}: {error}")))
            }
        }
    }
}

/// The parameters one after the other, with the name of the one that is read.
struct Fields<'a> {
    entries: Entries<'a>,
    name: Option<String>,
    value: &'a str,
}

impl<'de> MapAccess<'de> for &mut Fields<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let Some((name, value)) = self.entries.next() else {
            self.name = None;
            return Ok(None);
        };
        self.value = value;
        self.name = Some(name.clone());
        seed.deserialize(IntoDeserializer::<Self::Error>::into_deserializer(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        seed.deserialize(&mut serde_json::Deserializer::from_str(self.value))
    }
}
