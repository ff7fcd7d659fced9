//! What a program says that was built without a part.

use loopwright_test_support::process::project;

use crate::BIN;

/// A part that was not built in is named, with the command line that has it.
#[test]
fn a_missing_part_is_named() {
    let postgres = ["sessions", "list", "--store", "postgres://user@127.0.0.1/sessions"];
    let issuer = ["serve", "--jwt-issuer", "https://id.example.org", "--jwt-audience", "a"];
    for (args, part) in [
        (&postgres[..], "A store in PostgreSQL needs the feature `postgres`"),
        (&["serve", "--placement", "leases"], "--placement needs the feature `fleet`"),
        (&issuer, "--jwt-issuer needs the feature `oidc`"),
    ] {
        let exit = BIN.run(&project(), args);
        assert_eq!(exit.code, 2, "{exit:?}");
        assert!(exit.err.contains(part), "{exit:?}");
        assert!(exit.err.contains("`cargo run --features full -- …`"), "{exit:?}");
    }
}

/// A collector that the environment names is not silently left without data.
#[test]
fn missing_telemetry_is_said() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let exit = BIN.start_with(&project(), &["run", "Say hello"], &[endpoint]).close();
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(exit.err.contains("No telemetry is exported: "), "{exit:?}");
    assert!(exit.err.contains("needs the feature `otel`"), "{exit:?}");
}
