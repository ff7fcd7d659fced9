# Installs the binary loopwright on Windows: downloads the archive of a release, compares its checksum, and copies the
# binary to a directory. Not run yet: see docs/releasing.md.
#
#   LOOPWRIGHT_VERSION      the version, such as 0.1.0; the latest if unset
#   LOOPWRIGHT_INSTALL_DIR  the directory; %LOCALAPPDATA%\Programs\loopwright if unset
#   LOOPWRIGHT_RELEASES     where the releases are, for mirrors and tests
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$releases = if ($env:LOOPWRIGHT_RELEASES) { $env:LOOPWRIGHT_RELEASES } else { 'https://github.com/loopwright/loopwright/releases' }
$directory = if ($env:LOOPWRIGHT_INSTALL_DIR) { $env:LOOPWRIGHT_INSTALL_DIR } else { Join-Path $env:LOCALAPPDATA 'Programs\loopwright' }
$name = 'loopwright-x86_64-pc-windows-msvc'
$from = if ($env:LOOPWRIGHT_VERSION) { "$releases/download/v$($env:LOOPWRIGHT_VERSION.TrimStart('v'))" } else { "$releases/latest/download" }

$scratch = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $scratch | Out-Null
try {
    $archive = Join-Path $scratch "$name.zip"
    $checksum = Join-Path $scratch "$name.zip.sha256"
    Invoke-WebRequest -UseBasicParsing -Uri "$from/$name.zip" -OutFile $archive
    Invoke-WebRequest -UseBasicParsing -Uri "$from/$name.zip.sha256" -OutFile $checksum
    $expected = (Get-Content -Raw $checksum).Split(' ')[0].Trim()
    # Compares without case.
    if ((Get-FileHash -Algorithm SHA256 $archive).Hash -ne $expected) {
        throw "the checksum of $name.zip is wrong; nothing was installed"
    }
    Expand-Archive -Path $archive -DestinationPath $scratch
    New-Item -ItemType Directory -Force -Path $directory | Out-Null
    Copy-Item -Force (Join-Path $scratch "$name\loopwright.exe") (Join-Path $directory 'loopwright.exe')
}
finally {
    Remove-Item -Recurse -Force $scratch
}
Write-Output "$(& (Join-Path $directory 'loopwright.exe') --version) is installed: $(Join-Path $directory 'loopwright.exe')"
if (($env:PATH -split ';') -notcontains $directory) {
    Write-Output "$directory is not in PATH; add it to start loopwright by its name"
}
