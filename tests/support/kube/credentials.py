"""Who may talk to a test cluster: a CA, the API server's certificate, and a token for each account.

Static tokens in place of client certificates: one certificate is enough, and a test that needs an
account of its own adds a line.
"""

import datetime
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = datetime.timedelta(days=30)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

NODE: Final = "node"
"""The name of the only real node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user that the API server knows by a token."""

    user: str
    group: str = ""


ACCOUNTS: Final[Mapping[str, Account]] = {
    "admin": Account(user="admin", group="system:masters"),
    "controllers": Account(user="system:kube-controller-manager"),
    "scheduler": Account(user="system:kube-scheduler"),
    "proxy": Account(user="system:kube-proxy"),
    NODE: Account(user=f"system:node:{NODE}", group="system:nodes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files of one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def accounts_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def kubeconfig(self, account: str) -> Path:
        return self.folder / f"{account}.kubeconfig"


def make(folder: Path, addresses: list[str]) -> Credentials:
    """Write the files of a server: CA, its certificate, keys.

    Args:
        folder: Where; it is made.
        addresses: The IP addresses at which the server answers.
    """
    folder.mkdir(parents=True)
    made = Credentials(folder=folder)
    ca_key = _key(made.ca_key)
    ca_name = _name("hudi-operator-tests")
    ca = (
        _builder(ca_name, ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_KEY_USAGE_OF_CA, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    server_key = _key(made.server_key)
    _key(made.accounts_key)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        _builder(_name("kube-apiserver"), ca_name, server_key)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    made.server.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return made


def make_accounts(files: Credentials, server: str) -> None:
    """Write a token and a kubeconfig of each account, for an API server at a URL."""
    lines = []
    for name, account in ACCOUNTS.items():
        token = secrets.token_hex(16)
        lines.append(f'{token},{account.user},{name},"{account.group}"\n')
        write_kubeconfig(files.kubeconfig(name), server, files.ca, token)
    files.tokens.write_text("".join(lines))
    files.tokens.chmod(0o600)


def write_kubeconfig(path: Path, server: str, ca: Path, token: str) -> None:
    """Write a kubeconfig of one account."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)


_KEY_USAGE_OF_CA = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
    encipher_only=False, decipher_only=False,
)  # fmt: skip


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    return key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + _VALID_FOR)
    )
