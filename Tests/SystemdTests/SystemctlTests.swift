import Testing

@testable import Systemd

/// What systemctl says of itself. Oracle: the first lines of `systemctl --version` of distributions.
@Suite struct SystemctlTests {
    @Test(
        "A reload hands credentials over anew up to systemd 252",
        arguments: [
            ("systemd 252 (252.39-1~deb12u2)", true), ("systemd 249 (249.11-0ubuntu3.16)", true),
            ("systemd 253 (253.5-1ubuntu6)", false), ("systemd 255 (255.4-1ubuntu8)", false),
            ("systemd 257 (257.8-1~deb13u2)", false), ("systemd 260~rc1 (260~rc1-1)", false),
        ])
    func reloadHandsOver(version: String, holds: Bool) {
        #expect(Systemctl.reloadHandsOver(version) == holds)
    }

    @Test("What is no version of systemd warns of nothing", arguments: [nil, "", "systemd", "runit 2", "systemd x"])
    func unknown(version: String?) {
        #expect(Systemctl.reloadHandsOver(version))
    }
}
