//! Encrypted connections.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use loopwright_core::SessionStore;
use loopwright_memory::Postgres;
use loopwright_test_support::postgres::Server;

/// Creates a certificate for `localhost` in a folder, and the authority that signs it.
fn certify(folder: &Path) {
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(args).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("openssl is installed").success(), "{args:?}");
    };
    let key = ["-newkey", "rsa:2048", "-nodes"];
    let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority"];
    openssl(
        &[&authority[..], &key, &["-keyout", "authority.key", "-out", "authority.pem"]].concat(),
    );
    let request = ["req", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "request.pem"];
    openssl(&[&request[..], &key].concat());
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let sign = ["x509", "-req", "-days", "2", "-in", "request.pem", "-CA", "authority.pem"];
    let with = ["-CAkey", "authority.key", "-CAcreateserial", "-extfile", "names"];
    openssl(&[&sign[..], &with, &["-out", "server.crt"]].concat());
}

/// C329: the server's certificate and its name are checked if the address asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_is_refused() {
    let server = Server::start_encrypted(certify);
    let named = server.url().replace("127.0.0.1", "localhost");
    let open = async |url: String| {
        let store = Postgres::connect(url).await.map_err(|error| error.to_string())?;
        store.sessions().await.map_err(|error| error.to_string())
    };
    assert_eq!(open(named.clone()).await, Ok(vec![]), "any certificate, with `prefer`");
    let roots = server.path("authority.pem");
    let with_roots = |mode: &str| format!("{named}?sslmode={mode}&sslrootcert={}", roots.display());
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(open(with_roots(mode)).await, Ok(vec![]), "{mode}");
        let unknown = open(format!("{named}?sslmode={mode}")).await.unwrap_err();
        assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    }
    let store = Postgres::builder(named.clone()).root_certificates(&roots).connect().await;
    assert_eq!(store.unwrap().sessions().await, Ok(vec![]));
    let other_name = with_roots("require").replace("localhost", "127.0.0.1");
    let refused = open(other_name).await.unwrap_err();
    assert!(refused.contains("NotValidForName") || refused.contains("not valid"), "{refused}");
    let plain = Server::start();
    let refused = open(format!("{}?sslmode=require", plain.url())).await.unwrap_err();
    assert!(refused.contains("does not support TLS"), "{refused}");
}
