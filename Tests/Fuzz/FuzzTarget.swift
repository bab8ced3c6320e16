import Foundation
import Vocabulary

/// The targets of `deploy/fuzz`: what reads bytes that others wrote, in four groups. One program holds all of them, and
/// the environment names the one to run, so that there is one thing to build.
///
/// The first byte of an input chooses inside its group; written as a digit in the corpus. Each target states properties
/// with `require`: a breach ends the process, and libFuzzer keeps the input. That nothing crashes or hangs is held
/// beside them, by Swift's own traps and by the runner's time limit for one input.
enum FuzzTarget: String, CaseIterable {
    /// Bodies of webhooks and receipts.
    case body
    /// Requests to the HTTP server, answers of receivers, signatures, certificates, tokens.
    case wire
    case configuration
    /// Short texts: times, waits, encodings, cursors, the stored state of a purchase.
    case texts

    static let variable = "POSTHOUSE_FUZZ_TARGET"

    static let chosen: FuzzTarget = {
        let name = ProcessInfo.processInfo.environment[variable] ?? ""
        guard let target = FuzzTarget(rawValue: name) else {
            breach("\(variable) names no target: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return target
    }()

    func run(_ input: [UInt8]) {
        guard let choice = input.first else { return }
        let rest = Array(input.dropFirst())
        switch self {
        case .body: BodyTarget.run(Int(choice &- UInt8(ascii: "0")) % 12, rest)
        case .wire: WireTarget.run(Int(choice) % 6, rest)
        case .configuration: ConfigurationTarget.run(isServing: choice.isMultiple(of: 2), rest)
        case .texts: TextsTarget.run(Int(choice) % 8, rest)
        }
    }
}

/// Called by libFuzzer with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTarget.chosen.run([UInt8](UnsafeBufferPointer(start: start, count: count)))
    return 0
}

/// States a property of the input at hand.
func require(_ holds: Bool, _ property: @autoclosure () -> String) {
    if !holds { breach(property()) }
}

func breach(_ property: String) -> Never {
    FileHandle.standardError.write(Data("BROKEN: \(property)\n".utf8))
    abort()
}

/// What a message about an input must be: one line of ASCII, short, so that it quotes nothing of a body.
func requirePlain(_ message: String, _ what: String) {
    require(message.utf8.count <= 300, "\(what) is long: \(message)")
    require(message.utf8.allSatisfy { (0x20..<0x7F).contains($0) }, "\(what) is not one line of ASCII: \(message)")
}
