//! What failed while a round observed or acted, in words for machines and for users.
use crate::words::words;

/// What failed, as users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble it is.
    pub reason: Failed,
    /// A sentence without secrets.
    pub message: String,
}

words! {
    /// The kind of a [`Trouble`]: the reason of conditions and events. Alerts go by it.
    pub enum Failed {
        /// The group is gone, or another one has its name.
        Gone,
        /// The spec cannot be acted upon.
        SpecInvalid,
        /// The record cannot be read.
        RecordUnreadable,
        /// The objects cannot be built from the template.
        TemplateInvalid,
        /// Another installation of the operator manages the group.
        OtherInstallation,
        /// An object with the name of one of the group's objects belongs to somebody else.
        NameTaken,
        /// The operator lacks a right.
        Forbidden,
        /// The API server could not be read.
        ApiUnreadable,
        /// The API server could not be written to.
        ApiUnwritable,
        /// Too many executions run.
        NoSlot,
        /// The API server refuses the template.
        TemplateRejected,
        /// A check failed at the second look.
        SituationChanged,
        /// Something changed since it was read.
        Outdated,
        /// The operator is shutting down.
        Closing,
    }
}
