//! `tanist history`, `tanist diff` and `tanist rollback`: the templates that a group had. The operator stores each as a `ControllerRevision` (E3); a roll-back writes one of them into
//! `spec.template`, and the update goes on from there as after any change.
mod diff;
mod history;
mod rollback;

pub use diff::{Diff, diff};
pub use history::{History, history};
pub use rollback::{Rollback, rollback};

use super::Session;
use super::trouble::failed;
use anyhow::bail;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tanist_api::{
    ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_REVISION, ANNOTATION_VERSION, LABEL_TEMPLATE_OF, ReplicaGroup,
};

/// A template that the group had, or has.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The number of the revision, by which users name it.
    pub number: u64,
    /// The template as the user wrote it.
    pub template: Value,
    /// When it was first stored.
    pub created: Option<Timestamp>,
    /// Why the group was changed, as its user said.
    pub cause: Option<String>,
    /// The version of the application that it has (`spec.version`). Absent: none was named.
    pub version: Option<String>,
    /// A hash of the data of the ConfigMaps and Secrets that belong to it (`spec.update.onConfigChange`). Absent: none did.
    pub config: Option<String>,
}

/// All stored templates of a group, by number, and the present one.
#[derive(Debug, Clone, PartialEq)]
pub struct Revisions {
    /// The stored templates, by number.
    pub kept: Vec<Revision>,
    /// The template of the spec.
    pub present: Value,
    /// The group's name.
    group: String,
}

impl Revisions {
    /// Reads the templates of a group.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn read(session: &Session, group: &ReplicaGroup) -> anyhow::Result<Self> {
        let name = group.name_any();
        let api: Api<ControllerRevision> = Api::namespaced(session.client.clone(), &session.namespace);
        let labelled = ListParams::default().labels(&format!("{LABEL_TEMPLATE_OF}={name}"));
        let list = api.list(&labelled).await.map_err(|e| failed("list ControllerRevisions", &e))?;
        Ok(Self::of(group, list.items))
    }

    fn of(group: &ReplicaGroup, objects: Vec<ControllerRevision>) -> Self {
        // The StatefulSet's controller has its own ones, with what pods have in addition.
        let ours = |o: &ControllerRevision| {
            o.owner_references().iter().any(|owner| Some(&owner.uid) == group.metadata.uid.as_ref())
        };
        let mut kept: Vec<_> = objects.into_iter().filter(ours).filter_map(revision).collect();
        kept.sort_by_key(|revision| revision.number);
        Revisions { kept, present: json!(group.spec.template), group: group.name_any() }
    }

    /// Whether it has the template of the spec. Several may: those whose configuration differs (`spec.update.onConfigChange`).
    pub fn is_same(&self, revision: &Revision) -> bool {
        revision.template == self.present
    }

    /// The revision of the present template: the latest one that has it. `None`: it is not stored yet.
    pub fn latest(&self) -> Option<&Revision> {
        self.kept.iter().rev().find(|revision| self.is_same(revision))
    }

    /// The number of the present template. `None`: it is not stored yet.
    pub fn present_number(&self) -> Option<u64> {
        self.latest().map(|revision| revision.number)
    }

    /// The template of that number; without one, the latest that is not the present one.
    ///
    /// # Errors
    /// When there is none; with the numbers that there are.
    pub fn get(&self, number: Option<u64>) -> anyhow::Result<&Revision> {
        if self.kept.is_empty() {
            bail!("{}", self.nothing());
        }
        let Some(number) = number else {
            let former = self.kept.iter().rev().find(|revision| !self.is_same(revision));
            let Some(former) = former else { bail!("{}", self.nothing()) };
            return Ok(former);
        };
        let found = self.kept.iter().find(|revision| revision.number == number);
        let Some(found) = found else {
            let numbers: Vec<_> = self.kept.iter().map(|revision| revision.number.to_string()).collect();
            bail!("no revision {number} of group {}; there is: {}", self.group, numbers.join(", "))
        };
        Ok(found)
    }

    /// Why there is no former template.
    fn nothing(&self) -> String {
        let name = &self.group;
        match self.kept.is_empty() {
            true => format!(
                "no template of {name} is stored: does the operator have this version, and its Role the right to write ControllerRevisions \
                 (deploy/rbac/namespace)?"
            ),
            false => {
                format!("no other template of {name} is stored: it has not changed since the operator stores them")
            }
        }
    }
}

fn revision(object: ControllerRevision) -> Option<Revision> {
    let number = object.annotations().get(ANNOTATION_REVISION)?.parse().ok()?;
    let note = |key| object.annotations().get(key).cloned();
    let (cause, version, config) = (note(ANNOTATION_CAUSE), note(ANNOTATION_VERSION), note(ANNOTATION_CONFIG));
    let created = object.creation_timestamp().map(|time| time.0);
    let template = object.data?.0.pointer("/spec/template")?.clone();
    Some(Revision { number, template, created, cause, version, config })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
pub mod tests {
    use super::*;
    use crate::cli::example;

    /// A template with that image.
    pub fn template(image: &str) -> Value {
        json!({"spec": {"containers": [{"name": "db", "image": image}]}})
    }

    /// A group whose template has that image.
    pub fn group(image: &str) -> ReplicaGroup {
        example(&json!({"metadata": {"uid": "u"}, "spec": {"template": template(image)}}))
    }

    /// A stored template as the API server has it.
    pub fn kept(number: u64, image: &str, owner: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": format!("db-{number}"), "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {ANNOTATION_REVISION: number.to_string(), ANNOTATION_CAUSE: format!("to {image}")},
                "ownerReferences": [{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": owner}]
            },
            "data": {"spec": {"template": template(image)}}, "revision": number
        })
    }

    /// The templates 2, 3 and 10, of which 10 is the present one.
    pub fn some() -> Revisions {
        let objects = [kept(10, "db:10", "u"), kept(2, "db:2", "u"), kept(3, "db:3", "u"), kept(11, "other", "set")];
        Revisions::of(&group("db:10"), objects.into_iter().map(|o| serde_json::from_value(o).unwrap()).collect())
    }

    #[test]
    fn templates_are_found_by_number_and_the_latest_former_one_without() {
        let all = some();
        assert_eq!(
            all.kept.iter().map(|r| r.number).collect::<Vec<_>>(),
            [2, 3, 10],
            "those of the StatefulSet are none"
        );
        assert_eq!(all.present_number(), Some(10));
        let number = |asked| all.get(asked).map(|found| found.number).map_err(|e| e.to_string());
        assert_eq!((number(None), number(Some(2))), (Ok(3), Ok(2)));
        assert_eq!(number(Some(4)), Err("no revision 4 of group db; there is: 2, 3, 10".into()));
        // A template that is not stored yet: the latest one is a former one.
        let changed = Revisions { present: template("db:11"), ..all };
        assert_eq!((changed.get(None).unwrap().number, changed.present_number()), (10, None));
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = Revisions::of(&group("db:1"), Vec::new()).get(None).unwrap_err().to_string();
        assert!(none.contains("write ControllerRevisions"), "{none}");
        let only = Revisions::of(&group("db:1"), vec![serde_json::from_value(kept(1, "db:1", "u")).unwrap()]);
        assert!(only.get(None).unwrap_err().to_string().contains("no other template of db is stored"));
    }
}
