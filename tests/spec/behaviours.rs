//! What the tests of other agent frameworks assert, line by line (`B1` to `B43`), and what loopwright does there.

mod agent;
mod agent_loop;
mod replay;

/// Lines about wire formats that have no adapter yet, and why nothing of them can be shown without one.
const NOT_YET: &[(u32, &str)] =
    &[(37, "the placeholder for an unsigned call is a matter of the Gemini adapter, which comes with issue 5")];

/// Every line has its test, or a reason why it has none.
#[test]
fn every_line_is_shown_or_says_why_not() {
    let sources = [
        include_str!("behaviours/agent_loop.rs"),
        include_str!("behaviours/agent.rs"),
        include_str!("behaviours/replay.rs"),
    ];
    let shown =
        |n: u32| sources.iter().flat_map(|s| s.lines()).filter(|l| l.starts_with(&format!("/// B{n}: "))).count();
    for n in 1..=43 {
        let later = NOT_YET.iter().filter(|(line, why)| *line == n && !why.is_empty()).count();
        assert_eq!(shown(n) + later, 1, "line {n} has {} tests and {later} reasons", shown(n));
    }
}
