/// Bytes that must never be shown. Printing, interpolating or reflecting a secret reveals nothing of them.
package struct Secret: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The only access to the bytes, for the code that signs or compares.
    package func withBytes<Result, Failure: Error>(
        _ body: ([UInt8]) throws(Failure) -> Result
    ) throws(Failure) -> Result { try body(bytes) }

    package var isEmpty: Bool { bytes.isEmpty }

    /// Compares in a time that depends only on the lengths.
    package func matches(_ candidate: some Collection<UInt8>) -> Bool {
        guard candidate.count == bytes.count else { return false }
        var difference: UInt8 = 0
        for (left, right) in zip(bytes, candidate) { difference |= left ^ right }
        return difference == 0
    }

    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
