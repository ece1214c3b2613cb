//! Certificates: what each side of a TLS 1.3 connection shows, and whom it believes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{Error, Result};

/// Where certificates and key are, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The authorities that the peer's certificate must come from.
    pub authorities: PathBuf,
    /// Our own certificate, and those between it and an authority.
    pub certificate: PathBuf,
    /// The private key of our certificate.
    pub key: PathBuf,
}

/// What both sides need for TLS 1.3 with certificates on both sides. Nothing else is spoken, and no peer without a
/// certificate is let in.
#[derive(Clone)]
pub struct Tls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    pub fn from_files(files: &TlsFiles) -> Result<Self> {
        let authorities = certificates(&files.authorities)?;
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| wrong(&files.authorities, &error))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
        let of_key = |error: rustls::Error| wrong(&files.key, &error);
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(of_key)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(of_key)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(&files.authorities, &error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(of_key)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(of_key)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(wrong(path, &"holds no certificate (PEM)")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(wrong(path, &error)),
    }
}

fn wrong(path: &Path, reason: &impl ToString) -> Error {
    Error::Credentials { path: path.to_owned(), reason: reason.to_string() }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}
