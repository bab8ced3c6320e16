internal import CSystemd
internal import Glibc

/// A listening socket that the service manager opened before this process began (sd_listen_fds(3)).
package struct InheritedSocket: Equatable, Sendable {
    /// Already close-on-exec, because the processes of the private cluster must not keep the port.
    package let descriptor: Int32
    /// `FileDescriptorName=` of the socket unit, by default the unit's name (`posthouse.socket`).
    package let name: String
}

package enum ListenFds {
    /// `LISTEN_FDS` and its companions do not describe file descriptors of this process.
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let errorNumber: Int32

        package var description: String {
            "cannot take over the inherited sockets (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES): "
                + String(cString: strerror(errorNumber)) + "; start through posthouse.socket or unset these variables"
        }
    }

    /// The inherited sockets in the order of the unit; empty where there are none.
    ///
    /// Call it once: it removes the variables from the environment, so that no child takes them for its own.
    package static func take() throws(Failure) -> [InheritedSocket] {
        var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        let count = sd_listen_fds_with_names(1, &names)
        guard count >= 0 else { throw Failure(errorNumber: -count) }
        defer { release(names) }
        return (0..<count).map { index in
            let name = names?[Int(index)].map { String(cString: $0) } ?? ""
            return InheritedSocket(descriptor: posthouse_sd_listen_fds_start + index, name: name)
        }
    }

    /// Frees each name and the list itself, which ends with a null pointer; both belong to the caller.
    private static func release(_ names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) {
        guard let names else { return }
        var next = names
        while let name = next.pointee {
            free(name)
            next += 1
        }
        free(names)
    }
}
