internal import Vocabulary

/// What an event about a customer states, and one about anything else: nothing of access.
enum StripeCustomer {
    /// The customer is the user whom its metadata name. Later events repeat them, whatever else has changed, and may
    /// contradict what a subscription has said since: only the event that sets the user states it.
    static func statement(of snapshot: StripeSnapshot) throws(Unreadable) -> StripeStatement {
        let customer = try snapshot.object.text("id")
        let user = try snapshot.user(in: snapshot.object)
        var statement = StripeStatement(
            type: snapshot.name, holder: StripeParty(user: user, anonymousID: customer).holder)
        // An event that does not say what has changed may have set it.
        let isStated = snapshot.previous == nil || snapshot.hasNewUser
        if snapshot.name != StripeNames.customerDeleted, isStated, let user, let customer {
            statement.links = [HolderLink(anonymousID: customer, userID: user)]
            statement.movesPurchases = true
        }
        return statement
    }

    /// An event that is only passed on, with the customer if its object names one.
    static func other(_ snapshot: StripeSnapshot) throws(Unreadable) -> StripeStatement {
        let named = try snapshot.object.text("customer")
        let account = try snapshot.object.text("customer_account")
        let party = StripeParty(user: nil, anonymousID: named ?? account)
        return StripeStatement(type: snapshot.name, holder: party.holder)
    }
}
