//! The charts on a real Kubernetes, as administrators use them: install, upgrade and roll back with open intents, wrong values, monitoring, rights
//! of people, the commands of README, uninstall with groups left running: `make e2e-deploy`. Each installs the operator for the whole cluster, under its usual names. So
//! the cluster has to be without Tanist, has none afterwards, and one of them runs at a time.
//!
//! `PREVIOUS` names an archive with the operator to upgrade from, as deploy/tests/previous builds it; `CURRENT` another archive than the
//! cache's with the present one; `HELM` another program than that of deploy/tools. With `KEEP=1` a failure leaves everything for examination.
mod members;
mod monitoring;
mod people;
mod readme;
mod shop;
mod uninstall;
mod upgrade;
mod values;
