//! Reports of tests for other programs.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::suite::{CaseTested, Tested};

/// The results as JUnit XML, as CI systems read them: a suite for each file, a test case for each case.
///
/// # Errors
/// The XML cannot be written; this is an error of the library.
pub fn junit(tested: &Tested) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("tanist policy test");
    for file in &tested.files {
        let mut suite = TestSuite::new(file.file.clone());
        suite.add_test_cases(file.cases.iter().map(|case| test_case(&file.file, case)));
        report.add_test_suite(suite);
    }
    report.to_string()
}

fn test_case(file: &str, case: &CaseTested) -> TestCase {
    let status = if case.passed {
        TestCaseStatus::success()
    } else {
        let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
        failure.set_message(case.problem.clone().unwrap_or_else(|| "the answer is not the expected one".to_owned()));
        failure.set_description(details(file, case));
        failure
    };
    let mut xml = TestCase::new(case.name.clone(), status);
    xml.set_classname(file).set_time(case.took);
    xml
}

/// What differs, and every member with its reason.
fn details(file: &str, case: &CaseTested) -> String {
    let place = format!("{file}:{}", case.line);
    let members = case.ran.iter().flat_map(|ran| &ran.members);
    let members = members.map(|each| format!("{} {} ({}): {}", each.member, each.result, each.data, each.reason));
    std::iter::once(place).chain(case.difference.iter().cloned()).chain(members).collect::<Vec<_>>().join("\n")
}
