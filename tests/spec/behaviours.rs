//! Assertions of other agent frameworks' tests, line by line (`B1` to `B43`), and loopwright's
//! behaviour in each case.

mod agent;
mod agent_loop;
mod replay;

/// Every line has exactly one test.
#[test]
fn every_line_is_shown() {
    let sources = [
        include_str!("behaviours/agent_loop.rs"),
        include_str!("behaviours/agent.rs"),
        include_str!("behaviours/replay.rs"),
    ];
    let shown = |n: u32| {
        sources
            .iter()
            .flat_map(|s| s.lines())
            .filter(|l| l.starts_with(&format!("/// B{n}: ")))
            .count()
    };
    for n in 1..=43 {
        assert_eq!(shown(n), 1, "line {n} has {} tests", shown(n));
    }
}
